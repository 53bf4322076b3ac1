"""How is a completion written for each shell?"""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Sequence

Words = Mapping[str, Sequence[str]]


class ShellFlag(NamedTuple):
    """An option: its spellings, its help, and the kind of its value ("" = it takes none, "file" = any file, "=a b" =
    these words, else a key of the words)."""

    words: tuple[str, ...]
    help: str
    value: str


class Command(NamedTuple):
    """A command: its help, its options, and the kinds of its arguments."""

    help: str
    flags: tuple[ShellFlag, ...]
    places: tuple[str, ...]


Commands = Mapping[str, Command]


def _list(kind: str, words: Words) -> str:
    return kind[1:] if kind.startswith("=") else " ".join(words.get(kind, ()))


def _table(commands: Commands, words: Words) -> str:
    """A shell function that prints the words behind a command ($1) and the word before ($2)."""
    lines = ["_cachesim_words() {"]
    lines += [f"    local {kind}='{' '.join(found)}'" for kind, found in words.items()]
    lines.append('    case "$1 $2" in')
    for name, command in commands.items():
        for flag in (one for one in command.flags if one.value):
            spelled = "|".join(f'"{name} {word}"' for word in flag.words)
            lines.append(f"        {spelled}) echo \"{_shown(flag.value)}\" ;;")
    lines.append("        *)")
    lines.append('            case "$1" in')
    for name, command in commands.items():
        options = " ".join(word for flag in command.flags for word in flag.words)
        places = " ".join(dict.fromkeys(_shown(place) for place in command.places))
        lines.append(f'                {name}) echo " {options} {places}" ;;')
    lines += ["            esac ;;", "    esac", "}"]
    return "\n".join(lines)


def _shown(kind: str) -> str:
    """A kind of word as the function prints it."""
    return kind[1:] if kind.startswith("=") else "" if kind == "file" else f"${kind}"


def bash(commands: Commands, words: Words) -> str:
    """For bash 3.2 and newer, without the package bash-completion. ``@`` and ``=`` break words there: what stands
    before the last of them is cut off the answers."""
    return f"""# bash completion for cachesim: source <(cachesim completion bash)
{_table(commands, words)}

_cachesim() {{
    local line="${{COMP_LINE:0:COMP_POINT}}" typed n cur prev found word sign before
    read -ra typed <<< "$line"
    case "$line" in *[[:space:]]) typed+=("") ;; esac
    n=${{#typed[@]}}
    cur="${{typed[n-1]}}"
    prev="${{typed[n-2]}}"
    if (( n <= 2 )); then
        found="{' '.join(commands)} --help --version"
    else
        found="$(_cachesim_words "${{typed[1]}}" "$prev")"
    fi
    COMPREPLY=()
    for word in $(compgen -W "$found" -- "$cur"); do
        case "$word" in -*) [ "${{cur#-}}" = "$cur" ] && continue ;; esac
        COMPREPLY+=("$word")
    done
    for sign in @ =; do
        case "$cur" in *"$sign"*)
            case "$COMP_WORDBREAKS" in *"$sign"*)
                before="${{cur%"${{cur##*"$sign"}}"}}"
                COMPREPLY=("${{COMPREPLY[@]#"$before"}}") ;;
            esac ;;
        esac
    done
}}
complete -o default -F _cachesim cachesim"""


def zsh(commands: Commands, words: Words) -> str:
    """For zsh, with its own completion system: source it behind compinit, or put it into a file _cachesim of $fpath."""
    described = "\n".join(f"        '{name}:{_quoted(one.help)}'" for name, one in commands.items())
    return f"""#compdef cachesim
# zsh completion for cachesim: source <(cachesim completion zsh)
{_table(commands, words)}

_cachesim() {{
    local -a known found
    if (( CURRENT == 2 )); then
        known=(
{described}
        )
        _describe command known
        return
    fi
    found=(${{=$(_cachesim_words "${{words[2]}}" "${{words[CURRENT-1]}}")}})
    [[ $PREFIX == -* ]] || found=(${{found:#-*}})
    (( ${{#found}} )) && compadd -- $found
    _files
}}
if [ "$funcstack[1]" = "_cachesim" ]; then _cachesim "$@"; else compdef _cachesim cachesim; fi"""


def fish(commands: Commands, words: Words) -> str:
    """For fish: put it into ~/.config/fish/completions/cachesim.fish."""
    lines = ["# fish completion for cachesim: cachesim completion fish | source"]
    for name, command in commands.items():
        lines.append(f"complete -c cachesim -n __fish_use_subcommand -a {name} -d '{_quoted(command.help)}'")
        behind = f"complete -c cachesim -n '__fish_seen_subcommand_from {name}'"
        for place in dict.fromkeys(command.places):
            lines.append(f"{behind} -a '{_list(place, words)}'")
        for flag in command.flags:
            spelled = " ".join(f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" for word in flag.words)
            value = f" -r -a '{_list(flag.value, words)}'" if flag.value else ""
            lines.append(f"{behind} {spelled}{value} -d '{_quoted(flag.help)}'")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A help in single quotes, where a colon would end it in zsh."""
    return " ".join(text.split()).replace("'", "").replace(":", " -").replace("`", "").replace("\\", "")


SHELLS: Mapping[str, Callable[[Commands, Words], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
