"""``fairboost completion``: scripts that let a shell complete commands and options.

The scripts are written from the parser, so that they know what it knows. They are static: a shell
that asked Python at every press of the tab key would wait a second or two for the engines, as it
does with argcomplete. shtab writes static scripts too, but none for fish in most of its versions,
and it would be one more package to install for a command that most people run once.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from fairboost.cli.console import Console

USAGE = "{bash,fish,zsh}"
SUMMARY = "a script that lets your shell complete commands and options"
DESCRIPTION = "Print a script that lets a shell complete commands, options and values."
EXAMPLE = """\
  fairboost completion bash > ~/.local/share/bash-completion/completions/fairboost
  fairboost completion zsh > ~/.zfunc/_fairboost          # with ~/.zfunc in $fpath
  fairboost completion fish > ~/.config/fish/completions/fairboost.fish
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("shell", choices=sorted(SCRIPTS), help="the shell")


def run(options: argparse.Namespace, console: Console) -> None:
    """Print the script."""
    print(SCRIPTS[options.shell](_commands(options.root)), end="")


class _Completed(NamedTuple):
    """A command: what it is about, its options, and the values that it takes beside them."""

    name: str
    about: str
    flags: list[argparse.Action]
    values: str


def _commands(parser: argparse.ArgumentParser) -> list[_Completed]:
    (choices,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    about = {action.dest: action.help or "" for action in choices._choices_actions}
    found = []
    for name, command in choices.choices.items():
        flags = [a for a in command._actions if a.option_strings]
        others = [_values(a) for a in command._actions if not a.option_strings]
        found.append(_Completed(name, about[name], flags, " ".join(filter(None, others))))
    return found


def _values(action: argparse.Action) -> str:
    """The values that an option may have, if they are few."""
    return " ".join(map(str, action.choices or ()))


def _about(flag: argparse.Action) -> str:
    """The first words of what help says of an option."""
    return (flag.help or "").split(";")[0].split(" (")[0].replace("%%", "%")


def _quoted(text: str) -> str:
    """A word of a shell, in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


BASH = """\
# fairboost completion for bash
_fairboost() {
  local word="${COMP_WORDS[COMP_CWORD]}" words=""
  local before="${COMP_WORDS[COMP_CWORD-1]}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "%s --help --version" -- "$word"))
    return
  fi
  case "${COMP_WORDS[1]}:$before" in
%s
  esac
  if [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    return
  fi
  case "${COMP_WORDS[1]}" in
%s
  esac
  if [[ "$word" == -* || "${COMP_WORDS[1]}" == completion ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  fi
}
complete -o default -F _fairboost fairboost
"""


def _bash(commands: list[_Completed]) -> str:
    cases, values = [], []
    for c in commands:
        names = [name for flag in c.flags for name in flag.option_strings]
        cases.append(f'    {c.name}) words="{" ".join(filter(None, [*names, c.values]))}" ;;')
        values += [
            f'    {c.name}:{name}) words="{_values(flag)}" ;;'
            for flag in c.flags
            if flag.choices
            for name in flag.option_strings
        ]
    return BASH % (" ".join(c.name for c in commands), "\n".join(values), "\n".join(cases))


ZSH = """\
#compdef fairboost
_fairboost() {
  local -a commands
  commands=(
%s
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case "$words[2]" in
%s
  esac
}
_fairboost "$@"
"""


def _zsh(commands: list[_Completed]) -> str:
    cases = []
    for c in commands:
        cases.append(f"    {c.name}) shift words; (( CURRENT-- )); _arguments \\")
        for flag in c.flags:
            about = _about(flag).translate({ord(m): f"\\{m}" for m in "[]:"})
            value = f":value:({_values(flag)})" if flag.choices else ":value:_files"
            tail = f"[{about}]{'' if flag.nargs == 0 else value}"
            cases += [f"      {_quoted(f'*{name}{tail}')} \\" for name in flag.option_strings]
        rest = f"*:value:({c.values})" if c.values else "*:file:_files"
        cases.append(f"      {_quoted(rest)} ;;")
    described = (f"    {_quoted(f'{c.name}:{c.about}')}" for c in commands)
    return ZSH % ("\n".join(described), "\n".join(cases))


def _fish(commands: list[_Completed]) -> str:
    first = "not __fish_seen_subcommand_from " + " ".join(c.name for c in commands)
    lines = ["# fairboost completion for fish"]
    for c in commands:
        start = f"complete -c fairboost -f -n {_quoted(first)}"
        lines.append(f"{start} -a {c.name} -d {_quoted(c.about)}")
        given = _quoted(f"__fish_seen_subcommand_from {c.name}")
        if c.values:
            lines.append(f"complete -c fairboost -f -n {given} -a {_quoted(c.values)}")
        for flag in c.flags:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in flag.option_strings
            )
            takes = f" -x -a {_quoted(_values(flag))}" if flag.choices else " -r"
            tail = f"{'' if flag.nargs == 0 else takes} -d {_quoted(_about(flag))}"
            lines.append(f"complete -c fairboost -n {given} {names}{tail}")
    return "\n".join([*lines, ""])


SCRIPTS = {"bash": _bash, "fish": _fish, "zsh": _zsh}
