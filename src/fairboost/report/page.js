"use strict";
// Where rows are shown as cards, a browser may forget that they belong to a table.
const roles = {
  "table": "table", "thead, tbody": "rowgroup", "tr": "row", "td": "cell", "thead th": "columnheader",
  "tbody th": "rowheader",
};
for (const [selector, role] of Object.entries(roles)) {
  for (const element of document.querySelectorAll(selector)) element.setAttribute("role", role);
}
// Sorting: each heading is a button. Rows without a figure stay at the end.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const falling = head.getAttribute("aria-sort") === "ascending";
      const sign = falling ? -1 : 1;
      const read = (row) => {
        const cell = row.cells[column];
        const text = cell.textContent.trim();
        return { key: cell.dataset.key, text: text, empty: text === "" || text === "–" };
      };
      const rows = Array.from(body.rows).map((row) => [read(row), row]);
      rows.sort(([a], [b]) => {
        if (a.empty !== b.empty) return a.empty ? 1 : -1;
        if (a.key !== undefined && b.key !== undefined) return sign * (a.key - b.key);
        return sign * a.text.localeCompare(b.text, undefined, { numeric: true });
      });
      for (const [, row] of rows) body.append(row);
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    });
  });
}
// The slider along the trade-off: its table, its line and the ring in the picture follow.
for (const part of document.querySelectorAll(".slider")) {
  const found = JSON.parse(part.querySelector("script").textContent);
  const input = part.querySelector("input");
  const output = part.querySelector("output");
  // Cells as they are now; sorting moves rows, not cells.
  const rows = Array.from(part.querySelector("tbody").rows);
  const show = () => {
    const k = Number(input.value);
    output.textContent = found.names[k];
    input.setAttribute("aria-valuetext", found.names[k]);
    found.tables[k].forEach((line, r) => {
      line.forEach(([text, key, shade], c) => {
        const cell = rows[r].cells[c + found.first];
        cell.textContent = text;
        cell.className = shade ? "shade-" + shade : "";
        if (key === null) delete cell.dataset.key;
        else cell.dataset.key = key;
      });
    });
    for (const ring of document.querySelectorAll('[id*="-ring-"]')) {
      ring.classList.toggle("current", ring.id.endsWith("-ring-" + k));
    }
  };
  input.disabled = false;
  input.addEventListener("input", show);
  show();
}
// Details are printed, too, and closed again afterwards.
let opened = [];
window.addEventListener("beforeprint", () => {
  opened = Array.from(document.querySelectorAll("details:not([open])"));
  for (const part of opened) part.open = true;
});
window.addEventListener("afterprint", () => {
  for (const part of opened) part.open = false;
});
