"""``fairboost completion``: scripts that let a shell complete commands and options.

The scripts are written from the parser, so that they know what it knows. They are static: a shell
that asked Python at every press of the tab key would wait a second or two for the engines, which
is also why no package for completion is used.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from fairboost.cli.arguments import add_command
from fairboost.cli.exits import DONE

EXAMPLE = """\
  fairboost completion bash > ~/.local/share/bash-completion/completions/fairboost
  fairboost completion zsh > ~/.zfunc/_fairboost          # with ~/.zfunc in $fpath
  fairboost completion fish > ~/.config/fish/completions/fairboost.fish
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "completion",
        _run,
        usage="{bash,fish,zsh}",
        summary="a script that lets your shell complete commands and options",
        description="Print a script that lets a shell complete commands, options and values.",
        example=EXAMPLE,
    )
    parser.add_argument("shell", choices=sorted(SCRIPTS), help="the shell")


def _run(options: argparse.Namespace) -> int:
    print(completion_script(options.root, options.shell), end="")
    return DONE


@dataclass(frozen=True)
class _Flag:
    """An option: its spellings, its values if they are few, and what it is about."""

    names: tuple[str, ...]
    values: tuple[str, ...]
    takes_value: bool
    about: str


@dataclass(frozen=True)
class _Command:
    name: str
    about: str
    flags: tuple[_Flag, ...]
    values: tuple[str, ...]


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for a shell."""
    return str(SCRIPTS[shell](_commands(parser)))


def _commands(parser: argparse.ArgumentParser) -> list[_Command]:
    (choices,) = (
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    about = {action.dest: action.help or "" for action in choices._choices_actions}
    return [
        _Command(
            name,
            about.get(name, ""),
            tuple(_flag(a) for a in command._actions if a.option_strings),
            tuple(
                str(v) for a in command._actions if not a.option_strings for v in a.choices or ()
            ),
        )
        for name, command in choices.choices.items()
    ]


def _flag(action: argparse.Action) -> _Flag:
    about = (action.help or "").split(";")[0].split(" (")[0].replace("%%", "%")
    values = tuple(map(str, action.choices or ()))
    return _Flag(tuple(action.option_strings), values, action.nargs != 0, about)


def _bash(commands: list[_Command]) -> str:
    cases, values = [], []
    for c in commands:
        words = [name for flag in c.flags for name in flag.names]
        cases.append(f'    {c.name}) words="{" ".join([*words, *c.values])}" ;;')
        for flag in c.flags:
            for name in flag.names if flag.values else ():
                values.append(f'    {c.name}:{name}) words="{" ".join(flag.values)}" ;;')
    names = " ".join(c.name for c in commands)
    return "\n".join(
        [
            "# fairboost completion for bash",
            "_fairboost() {",
            '  local word="${COMP_WORDS[COMP_CWORD]}" words=""',
            '  local before="${COMP_WORDS[COMP_CWORD-1]}"',
            "  COMPREPLY=()",
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f'    COMPREPLY=($(compgen -W "{names} --help --version" -- "$word"))',
            "    return",
            "  fi",
            '  case "${COMP_WORDS[1]}:$before" in',
            *values,
            "  esac",
            '  if [ -n "$words" ]; then',
            '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
            "    return",
            "  fi",
            '  case "${COMP_WORDS[1]}" in',
            *cases,
            "  esac",
            '  if [[ "$word" == -* || "${COMP_WORDS[1]}" == completion ]]; then',
            '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
            "  fi",
            "}",
            "complete -o default -F _fairboost fairboost",
            "",
        ]
    )


def _zsh(commands: list[_Command]) -> str:
    lines = ["#compdef fairboost", "_fairboost() {", "  local -a commands", "  commands=("]
    lines += [f"    {_quoted(f'{c.name}:{c.about}')}" for c in commands]
    lines += ["  )", "  if (( CURRENT == 2 )); then", "    _describe command commands"]
    lines += ["    return", "  fi", '  case "$words[2]" in']
    for c in commands:
        lines.append(f"    {c.name}) shift words; (( CURRENT-- )); _arguments \\")
        for flag in c.flags:
            for name in flag.names:
                about = flag.about.translate({ord(m): f"\\{m}" for m in "[]:"})
                value = f":value:({' '.join(flag.values)})" if flag.values else ":value:_files"
                spec = f"*{name}[{about}]{value if flag.takes_value else ''}"
                lines.append(f"      {_quoted(spec)} \\")
        rest = f"*:value:({' '.join(c.values)})" if c.values else "*:file:_files"
        lines.append(f"      {_quoted(rest)} ;;")
    lines += ["  esac", "}", '_fairboost "$@"', ""]
    return "\n".join(lines)


def _fish(commands: list[_Command]) -> str:
    names = " ".join(c.name for c in commands)
    first = f"not __fish_seen_subcommand_from {names}"
    lines = ["# fairboost completion for fish"]
    for c in commands:
        about = _quoted(c.about)
        lines.append(f"complete -c fairboost -f -n {_quoted(first)} -a {c.name} -d {about}")
        seen = _quoted(f"__fish_seen_subcommand_from {c.name}")
        if c.values:
            words = _quoted(" ".join(c.values))
            lines.append(f"complete -c fairboost -f -n {seen} -a {words}")
        for flag in c.flags:
            spelled = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in flag.names
            )
            takes = f" -x -a {_quoted(' '.join(flag.values))}" if flag.values else " -r"
            tail = takes if flag.takes_value else ""
            lines.append(
                f"complete -c fairboost -n {seen} {spelled}{tail} -d {_quoted(flag.about)}"
            )
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """A word of a shell, in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


SCRIPTS = {"bash": _bash, "fish": _fish, "zsh": _zsh}
