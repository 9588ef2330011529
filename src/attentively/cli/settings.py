"""Options from the command line, from a TOML file, or by default.

Every field of a configuration becomes an option of the same name, built from the dataclass.
"""

import dataclasses
import functools
import importlib.resources
import inspect
import tomllib
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from attentively.cli import docstrings

NONE = "none"
"""The spelling of ``None`` on the command line and in a file."""


class Given(NamedTuple):
    """A value that the user set."""

    value: Any
    where: str
    """Its name in a message: ``--steps``, or ``steps in recipe.toml``."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """A field of one or several configurations: its type, allowed values and defaults."""

    name: str
    kind: type
    """bool, int, float, str, or tuple for integers separated by commas."""
    optional: bool
    """Whether it may be None."""
    known: tuple[str, ...]
    """The allowed values, where they can be listed."""
    defaults: Mapping[str, Any]
    """The default of each configuration; `dataclasses.MISSING` where a value is required."""
    helps: Mapping[str, str]
    """The help text of each configuration."""

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def owners(self) -> tuple[str, ...]:
        """The names of the configurations that have this field."""
        return tuple(self.defaults)

    def parse(self, text: str) -> Any:
        """Parse a value from the command line."""
        if self.optional and text == NONE:
            return NONE
        if self.kind is tuple:
            return tuple(int(number) for number in text.split(","))
        return self.kind(text)

    def check(self, given: Given) -> Any:
        """Return the value; raise `ValueError` for a wrong type or an unknown value."""
        value = given.value
        if self.optional and value == NONE:
            return None
        if self.kind is tuple and isinstance(value, list | tuple):
            right = all(type(number) is int for number in value)
            value = tuple(value)
        else:
            accepted = (int, float) if self.kind is float else (self.kind,)
            right = type(value) in accepted
        if not right:
            raise ValueError(f"{given.where} is {value!r}, but it must be {self.expected}")
        if self.known and value not in self.known:
            raise ValueError(
                f"{given.where} is {value!r}, which is unknown: choose one of "
                f"{', '.join(self.known)}"
            )
        return float(value) if self.kind is float else value

    @property
    def expected(self) -> str:
        """The expected type, in words."""
        words = {
            bool: "true or false",
            int: "an integer",
            float: "a number",
            str: "text",
            tuple: "integers separated by commas",
        }[self.kind]
        return f"{words}, or {NONE!r}" if self.optional else words


def choices(configs: Mapping[str, type], without: Collection[str] = ()) -> list[Choice]:
    """Return the fields of several configurations; fields of the same name become one choice."""
    found: dict[str, Choice] = {}
    for owner, config in configs.items():
        texts = docstrings.of_fields(config)
        hints = typing.get_type_hints(config)
        for field in dataclasses.fields(config):
            if field.name in without:
                continue
            new = Choice(
                field.name,
                *_kind(hints[field.name]),
                defaults={owner: field.default},
                helps={owner: texts.get(field.name, "")},
            )
            earlier = found.get(field.name)
            found[field.name] = new if earlier is None else _both(earlier, new)
    return list(found.values())


def _kind(hint: Any) -> tuple[type, bool, tuple[str, ...]]:
    """Return the type of an annotation, whether it may be None, and the values it lists."""
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    [inner] = [part for part in parts if part is not type(None)]
    optional = len(parts) > 1
    if typing.get_origin(inner) is Literal:
        return str, optional, typing.get_args(inner)
    kind = typing.get_origin(inner) or inner
    if kind not in (bool, int, float, str, tuple):
        raise TypeError(f"a field of type {hint} cannot become an option")
    return kind, optional, ()


def _both(one: Choice, other: Choice) -> Choice:
    if one.kind is not other.kind:
        raise TypeError(
            f"{one.name} has type {one.kind} in {one.owners} but {other.kind} in {other.owners}"
        )
    return Choice(
        one.name,
        one.kind,
        one.optional or other.optional,
        tuple(dict.fromkeys([*one.known, *other.known])),
        {**one.defaults, **other.defaults},
        {**one.helps, **other.helps},
    )


def parameter(choice: Choice, panel: str) -> inspect.Parameter:
    """Return the command-line parameter of a choice; its value is None if it is not given."""
    declared = choice.flag
    kind: Any = choice.kind
    parser: Callable[[str], Any] | None = None
    metavar = None
    if choice.kind is bool:
        declared = f"{choice.flag}/--no-{choice.flag[2:]}"
    elif choice.known:
        kind = Literal[choice.known]
    elif choice.optional or choice.kind is tuple:
        parser = choice.parse
        metavar = {int: "INTEGER", float: "FLOAT", tuple: "N,N,..."}.get(choice.kind, "TEXT")
        metavar += f"|{NONE}" if choice.optional else ""
    option = typer.Option(
        declared,
        help=_help(choice).replace("[", r"\["),
        rich_help_panel=panel,
        parser=parser,
        metavar=metavar,
    )
    return inspect.Parameter(
        choice.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def _help(choice: Choice) -> str:
    """Return help text and default; where configurations differ, those of each."""
    helps = _by_value({owner: text for owner, text in choice.helps.items() if text})
    if len(helps) > 1:
        text = " ".join(f"For {owners}: {text}" for text, owners in helps.items())
    else:
        text = "".join(helps)
    defaults = _by_value(
        {
            owner: _said(value)
            for owner, value in choice.defaults.items()
            if value is not dataclasses.MISSING
        }
    )
    if len(defaults) > 1:
        default = "; ".join(f"{value} for {owners}" for value, owners in defaults.items())
    else:
        default = "".join(defaults)
    return (
        f"{text} [{f'default: {default}' if default else 'required, here or in --config'}]".strip()
    )


def _by_value(values: Mapping[str, str]) -> dict[str, str]:
    """Return the owners of each distinct value."""
    found: dict[str, list[str]] = {}
    for owner, value in values.items():
        found.setdefault(value, []).append(owner)
    return {value: ", ".join(owners) for value, owners in found.items()}


def _said(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


# Files


def recipes() -> dict[str, Path]:
    """Return the paths of the recipes in the package, by name."""
    folder = Path(str(importlib.resources.files("attentively") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read(name: str, tables: Mapping[str, Iterable[str]]) -> dict[str, Given]:
    """Read a TOML file, or a recipe of the package by its name.

    `tables` lists the keys of each table; ``""`` is the part before the first table. Raises
    `ValueError` for a missing file, invalid TOML, and unknown tables or keys.
    """
    path = Path(name)
    if not path.is_file():
        shipped = recipes()
        if name not in shipped:
            raise ValueError(
                f"{name} is neither a file nor a recipe; the recipes are {', '.join(shipped)}"
            )
        path = shipped[name]
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    given: dict[str, Given] = {}
    top = {key: value for key, value in content.items() if not isinstance(value, dict)}
    named = {key: value for key, value in content.items() if isinstance(value, dict)}
    for table in named:
        if table not in tables or not table:
            raise ValueError(
                f"{path} has an unknown table [{table}]; the tables are "
                f"{', '.join(f'[{known}]' for known in tables if known)}"
            )
    for table, values in {"": top, **named}.items():
        known = sorted(tables[table])
        for key, value in values.items():
            if key not in known:
                where = f"in [{table}]" if table else "before the first table"
                raise ValueError(
                    f"{path} has an unknown key {key} {where}; the keys are {', '.join(known)}"
                )
            given[key] = Given(value, f"{key} in {path}")
    return given


def with_options(
    function: Callable[..., None], parameters: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """Return `function`, which takes ``**options``, with a signature that names each option."""
    signature = inspect.signature(function)
    own = [
        each
        for each in signature.parameters.values()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    positional = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]

    @functools.wraps(function)
    def command(**options: Any) -> None:
        function(**options)

    every = [*positional, *parameters]
    command.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in every}
    return command
