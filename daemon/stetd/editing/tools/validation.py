"""Requests against the models of tool inputs, and what a refusal says to a language model.

Accepted is what can only mean one thing: a single object instead of a list, the list or the object
as a JSON string, field names in snake or camel case, null for a field that is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from rapidfuzz import fuzz, process, utils

from stet.wire.failures import Failure, Kind, Refused
from stetd.editing.tools.inputs import MAX_ELEMENTS, Field, ToolInput, fields_of

Input = TypeVar("Input", bound=ToolInput)
Place = tuple[str | int, ...]
#: Where a word begins in a name in camel case.
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")
#: Likeness (0 to 100) from which a misspelt name is taken for a field in the answer's advice.
_LIKENESS = 65
#: Characters of what was received that a refusal repeats.
_LONGEST_QUOTE = 80
#: What a refusal says of a value of the wrong type.
_WANTED = {
    str: " must be a string",
    int: " must be a whole number",
    bool: " must be true or false",
    float: ": Input should be a valid number",
}


def validated(model: type[Input], params: Mapping[str, object], noun: str = "item") -> Input:
    """``params`` as ``model``, whose list holds ``noun``s. Raises Refused, with every fault."""
    try:
        return msgspec.convert(params, model)  # most calls are as the model defines them
    except msgspec.ValidationError:
        reading = _Reading(model, noun)
    made = reading.object_of(model, params, ())
    if reading.failures:
        raise Refused(*reading.failures)
    assert isinstance(made, model), "BUG: neither an input nor a failure"
    return made


class _BrokenJson(msgspec.Struct):
    """A string that begins like JSON and is not valid JSON: in its place, what it is."""

    description: str


class _Reading:
    """Reads a request into objects, and notes what is wrong."""

    def __init__(self, model: type[ToolInput], noun: str) -> None:
        self._model = model
        self._noun = noun
        self.failures: list[Failure] = []

    def object_of(self, model: type[ToolInput], value: object, place: Place) -> ToolInput | None:
        """The value as an object of this model; None if anything in it is wrong."""
        value = _parsed(value)
        if not isinstance(value, Mapping):
            self._note_wrong(place, " must be an object", value, model)
            return None
        before = len(self.failures)
        given = _spelled_as_defined(model, model.with_own_names(value))
        fields = fields_of(model)
        made: dict[str, Any] = {}
        for name, field in fields.items():
            here = (*place, name)
            if name in given:
                made[field.name] = self._value(model, field, given[name], here)
            elif field.required:
                choices = f" It must be {_either(field.choices)}." if field.choices else ""
                expected, received = _expected_fields(model), _received(given)
                sentence = f'"{_dotted(here)}" is missing.{choices}{expected} Received: {received}.'
                self._note(here, sentence)
        for key in given:
            if key not in fields:
                self._note_unknown(model, (*place, key), given)
        return model(**made) if len(self.failures) == before else None

    def _value(self, model: type[ToolInput], field: Field, value: Any, place: Place) -> object:
        """The value as this field's; if it is none, that is noted."""
        kind = field.kinds[0]
        if isinstance(kind, type) and issubclass(kind, ToolInput):
            return self.object_of(kind, value, place)
        if field.element is not None:
            return self._elements(model, field, _parsed(value), place)
        if field.choices:
            return self._choice(model, field, value, place)
        if isinstance(value, str) and not value and field.bounds.min_length:
            self._note_empty(place, model)
        elif fault := _fault(field, value):
            self._note_wrong(place, fault, value, model)
        elif kind is float:
            return float(value)
        return value

    def _elements(
        self, model: type[ToolInput], field: Field, value: object, place: Place
    ) -> list[object]:
        if isinstance(value, Mapping):
            value = [value]
        if not isinstance(value, list):
            self._note_wrong(place, " must be a list of objects", value, model)
            return []
        if not value:
            self._note_empty(place, model)
        if len(value) > MAX_ELEMENTS:
            sentence = f"has more than {MAX_ELEMENTS:,} elements; send fewer in a call."
            self._note(place, f'"{_dotted(place)}" {sentence}')
            return []
        return [self.object_of(field.element, each, (*place, n)) for n, each in enumerate(value)]

    def _choice(self, model: type[ToolInput], field: Field, value: object, place: Place) -> object:
        if isinstance(value, str) and value in field.choices:
            return value
        hint = _hint(str(value), field.choices, model)
        choices, received = _either(field.choices), _received(value)
        self._note(place, f'"{_dotted(place)}" must be {choices}; received {received}{hint}.')
        return None

    # -- what is wrong

    def _note_unknown(
        self, owner: type[ToolInput], place: Place, given: Mapping[str, object]
    ) -> None:
        field = _dotted(place)
        # A field that was sent, too, is not the one that is meant: replace, for replace_all.
        names = [name for name in fields_of(owner) if name not in given]
        hint = _belongs(self._model, owner, field) or _hint(field.rpartition(".")[2], names, owner)
        self._note(place, f'unknown field "{_cut(field)}"{hint}.{_expected_fields(owner)}')

    def _note_empty(self, place: Place, owner: type[ToolInput]) -> None:
        self._note(place, f'"{_dotted(place)}" is empty.{_expected_fields(owner)}')

    def _note_wrong(self, place: Place, fault: str, value: object, owner: type[ToolInput]) -> None:
        field = _dotted(place)
        sentence = f'"{field}"{fault}' if field else fault.lstrip()
        self._note(place, f"{sentence}; received {_received(value)}.{_expected_fields(owner)}")

    def _note(self, place: Place, sentence: str) -> None:
        index = place[1] if len(place) > 1 and isinstance(place[1], int) else None
        label = "" if index is None else f"{self._noun} {index + 1}: "
        self.failures.append(Failure(Kind.INVALID_PARAMS.value, f"{label}{sentence}", index=index))


def _fault(field: Field, value: Any) -> str | None:
    """What is wrong with a value, which is not converted; but a whole number is a number, too."""
    kind, bounds = field.kinds[0], field.bounds
    fits = isinstance(value, (int, float) if kind is float else kind)
    if not fits or isinstance(value, bool) != (kind is bool):
        return _WANTED[kind]
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f": character {error.start + 1} is half of a surrogate pair"
    elif bounds.ge is not None and not value >= bounds.ge:
        return f": Input should be greater than or equal to {bounds.ge}"
    elif bounds.le is not None and not value <= bounds.le:
        return f": Input should be less than or equal to {bounds.le}"
    return None


def _parsed(value: object) -> object:
    """A JSON string of an object or a list, parsed; else the value."""
    if not isinstance(value, str) or value.lstrip(" \t\r\n")[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value, strict=False)  # bare line ends in strings mean themselves
    except json.JSONDecodeError as error:
        return _BrokenJson(
            f"a string that is not valid JSON: {error.msg} at line {error.lineno}, "
            f"column {error.colno}"
        )
    except (ValueError, RecursionError):
        return value


def _spelled_as_defined(model: type[ToolInput], value: Mapping[Any, object]) -> dict[str, object]:
    """What was given, by the names that the fields have; what is null was not given."""
    names = {in_snake_case(name): name for name in fields_of(model)}
    spelled: dict[str, object] = {}
    for key, each in value.items():
        if each is None:
            continue
        written = str(key).encode("utf-8", "backslashreplace").decode()
        name = names.get(in_snake_case(written), written)
        if name != written and value.get(name) not in (None, each):
            name = written  # both spellings, with different values: not ours to choose
        spelled[name] = each
    return spelled


def in_snake_case(name: str) -> str:
    """A name in camel case as a name in snake case."""
    return _HUMP.sub(lambda hump: f"_{hump.group().lower()}", name)


def _dotted(place: Sequence[str | int]) -> str:
    """``reindent.strip``: the field within its patch; ``patches`` itself within the call."""
    after_index = [n for n, part in enumerate(place) if isinstance(part, int)]
    names = place[after_index[-1] + 1 :] if after_index else place
    return ".".join(str(part) for part in names)


def _either(choices: Sequence[str]) -> str:
    """``'a', 'b' or 'c'``."""
    *others, last = [f"'{each}'" for each in choices]
    return f"{', '.join(others)} or {last}"


def _expected_fields(model: type[ToolInput]) -> str:
    """`` Expected fields: ..``, for the end of a sentence."""
    fields = (
        f"{name} (required)" if field.required else name for name, field in fields_of(model).items()
    )
    return f" Expected fields: {', '.join(fields)}."


def _received(value: object) -> str:
    """What came instead, short enough to repeat to the model."""
    if isinstance(value, _BrokenJson):
        return value.description
    if isinstance(value, Mapping):
        return f"an object with {_cut(', '.join(map(str, value))) or 'no fields'}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return _cut(json.dumps(value, default=str))


def _cut(text: str) -> str:
    """``text``, short enough, with halves of surrogate pairs spelled out: they can't be sent."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "..."


def _belongs(model: type[ToolInput], owner: type[ToolInput], field: str) -> str:
    """Where a field belongs that was put one level too high or too low."""
    for name, each in fields_of(model).items():
        if each.element is None:
            continue
        if owner is model and field in fields_of(each.element):
            return f' (it belongs into the objects of the list "{name}")'
        ours = _by_foreign_name(field, fields_of(each.element), each.element)
        if owner is model and ours:
            return f' (did you mean "{ours}" in the objects of the list "{name}"?)'
        if owner is each.element and field in fields_of(model):
            return f' (it belongs beside "{name}", not into it)'
    return ""


def _hint(name: str, names: Sequence[str], model: type[ToolInput]) -> str:
    """`` (did you mean "oldText"?)`` if one of ``names`` is close to ``name``."""
    ours = _by_foreign_name(name, names, model)
    if ours:
        return f' (did you mean "{ours}"?)'
    found = process.extractOne(
        name[:_LONGEST_QUOTE],
        names,
        scorer=fuzz.WRatio,
        processor=utils.default_process,
        score_cutoff=_LIKENESS,
    )
    return f' (did you mean "{found[0]}"?)' if found else ""


def _by_foreign_name(name: str, names: Container[str], model: type[ToolInput]) -> str | None:
    """The one of ``names`` that other tools call ``name``."""
    spellings = {name.lower(), in_snake_case(name).lower()}
    foreign = model.foreign_names.items()
    known = (ours for ours, theirs in foreign if not spellings.isdisjoint(theirs))
    return next((ours for ours in known if ours in names), None)
