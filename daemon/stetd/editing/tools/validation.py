"""Requests against the models of tool inputs, and what a refusal says to a language model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec
from rapidfuzz import fuzz, process, utils

from stet.wire.failures import Failure, Kind, Refused
from stetd.editing.tools import inputs
from stetd.editing.tools.inputs import BrokenJson, Field, ToolInput, fields_of

Input = TypeVar("Input", bound=ToolInput)
Place = tuple[str | int, ...]
#: Likeness (0 to 100) from which a misspelt name is taken for a field in the answer's advice.
_LIKENESS = 60
#: Characters of what was received that a refusal repeats.
_LONGEST_QUOTE = 80
#: What a value of the wrong type should have been.
_MUST_BE = " must be"
_WANTED = {
    str: ("a string", _MUST_BE),
    int: ("a whole number", _MUST_BE),
    bool: ("true or false", _MUST_BE),
    float: ("Input should be a valid number", ":"),
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


class _Reading:
    def __init__(self, model: type[ToolInput], noun: str) -> None:
        self._model = model
        self._noun = noun
        self.failures: list[Failure] = []

    def object_of(self, model: type[ToolInput], value: object, place: Place) -> ToolInput | None:
        """The value as an object of this model; None if anything in it is wrong."""
        if not isinstance(value, Mapping):
            self._note_wrong(place, "an object", _received(value), model)
            return None
        before = len(self.failures)
        given = _spelled_as_defined(model, model.with_own_names(value))
        made: dict[str, Any] = {}
        for field in fields_of(model):
            here = (*place, field.wire)
            if field.wire in given:
                made[field.name] = self._value(model, field, given[field.wire], here)
            elif field.required:
                expected = f"Expected fields: {_fields(model)}"
                received = _received(given)
                self._note(here, f'"{_dotted(here)}" is missing. {expected}. Received: {received}.')
        if len(given) > len(made):
            names = _names(model)
            for key in given:
                if key not in names:
                    self._note_unknown(model, (*place, key))
        return model(**made) if len(self.failures) == before else None

    def _value(self, model: type[ToolInput], field: Field, value: Any, place: Place) -> object:
        """The value as this field's; if it is none, that is noted."""
        kind = field.kinds[0]
        is_object = isinstance(kind, type) and issubclass(kind, ToolInput)
        owner = kind if is_object else model
        try:
            if is_object:
                return self.object_of(kind, inputs.parsed(value), place)
            if field.element is not None:
                return self._elements(field, inputs.listed(value), place, owner)
        except BrokenJson as broken:
            wanted = "an object" if is_object else "a list of objects"
            self._note_wrong(place, wanted, str(broken), owner)
            return None
        if field.choices:
            return self._choice(field, value, place)
        if not _is_a(kind, value):
            wanted, must = _WANTED[kind]
            self._note_wrong(place, wanted, _received(value), owner, must)
            return None
        fault = _fault(field, value)
        if fault == "":
            self._note_empty(place, owner)
        elif fault is not None:
            self._note_wrong(place, fault, _received(value), owner, ":")
        return float(value) if kind is float else value

    def _elements(
        self, field: Field, value: object, place: Place, owner: type[ToolInput]
    ) -> list[object]:
        if not isinstance(value, list):
            self._note_wrong(place, "a list of objects", _received(value), owner)
            return []
        if not value:
            self._note_empty(place, owner)
        if len(value) > inputs.MAX_ELEMENTS:
            self._note(
                place,
                f'"{_dotted(place)}" has more than {inputs.MAX_ELEMENTS:,} elements; '
                "send fewer in a call.",
            )
            return []
        made: list[object] = []
        for number, each in enumerate(value):
            here = (*place, number)
            try:
                made.append(self.object_of(field.element, inputs.parsed(each), here))
            except BrokenJson as broken:
                self._note_wrong(here, "an object", str(broken), field.element)
        return made

    def _choice(self, field: Field, value: object, place: Place) -> object:
        if isinstance(value, str) and value in field.choices:
            return value
        *others, last = [f"'{each}'" for each in field.choices]
        choices = f"{', '.join(others)} or {last}"
        hint = _hint(str(value), field.choices, {})
        received = _received(value)
        self._note(place, f'"{_dotted(place)}" must be {choices}; received {received}{hint}.')
        return None

    # -- what is wrong

    def _note_unknown(self, owner: type[ToolInput], place: Place) -> None:
        field = _dotted(place)
        hint = _belongs(self._model, owner, field)
        hint = hint or _hint(field.rpartition(".")[2], _names(owner), owner.foreign_names)
        self._note(
            place, f'unknown field "{_cut(field)}"{hint}. Expected fields: {_fields(owner)}.'
        )

    def _note_empty(self, place: Place, owner: type[ToolInput]) -> None:
        self._note(place, f'"{_dotted(place)}" is empty. Expected fields: {_fields(owner)}.')

    def _note_wrong(
        self, place: Place, wanted: str, what: str, owner: type[ToolInput], must: str = _MUST_BE
    ) -> None:
        field = f'"{_dotted(place)}"{must} ' if _dotted(place) else f"{must} ".lstrip()
        self._note(place, f"{field}{wanted}; received {what}. Expected fields: {_fields(owner)}.")

    def _note(self, place: Place, sentence: str) -> None:
        index = place[1] if len(place) > 1 and isinstance(place[1], int) else None
        label = "" if index is None else f"{self._noun} {index + 1}: "
        self.failures.append(Failure(Kind.INVALID_PARAMS.value, f"{label}{sentence}", index=index))


def _is_a(kind: Any, value: object) -> bool:
    """Whether a value is of a type, without being changed; a whole number is a number, too."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _fault(field: Field, value: Any) -> str | None:
    """What is wrong with a value of the right type; "" if it is empty and must not be."""
    bounds = field.bounds
    if isinstance(value, str):
        if bounds.min_length and not value:
            return ""
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f"character {error.start + 1} is half of a surrogate pair"
    elif bounds.ge is not None and not value >= bounds.ge:
        return f"Input should be greater than or equal to {bounds.ge}"
    elif bounds.le is not None and not value <= bounds.le:
        return f"Input should be less than or equal to {bounds.le}"
    return None


def _spelled_as_defined(model: type[ToolInput], value: Mapping[Any, object]) -> dict[str, object]:
    """What was given, by the names that the fields have; what is null was not given."""
    names = _in_snake_case(model)
    wires = frozenset(names.values())
    spelled: dict[str, object] = {}
    for key, each in value.items():
        if each is None:
            continue
        if key in wires:
            spelled[key] = each
            continue
        written = str(key).encode("utf-8", "backslashreplace").decode()
        name = names.get(inputs.in_snake_case(written), written)
        if name != written and value.get(name) not in (None, each):
            name = written  # both spellings, with different values: not ours to choose
        spelled[name] = each
    return spelled


@cache
def _in_snake_case(model: type[ToolInput]) -> dict[str, str]:
    return {inputs.in_snake_case(field.wire): field.wire for field in fields_of(model)}


def _dotted(place: Sequence[str | int]) -> str:
    """``reindent.strip``: the field within its patch; ``patches`` itself within the call."""
    after_index = [n for n, part in enumerate(place) if isinstance(part, int)]
    names = place[after_index[-1] + 1 :] if after_index else place
    return ".".join(str(part) for part in names)


def _names(model: type[ToolInput]) -> list[str]:
    return [field.wire for field in fields_of(model)]


def _fields(model: type[ToolInput]) -> str:
    return ", ".join(
        f"{field.wire} (required)" if field.required else field.wire for field in fields_of(model)
    )


def _received(value: object) -> str:
    """What came instead, short enough to repeat to the model."""
    if value is None:
        return "null"
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
    for each in fields_of(model):
        if each.element is None:
            continue
        if owner is model and field in _names(each.element):
            return f' (it belongs into the objects of the list "{each.wire}")'
        if owner is each.element and field in _names(model):
            return f' (it belongs beside "{each.wire}", not into it)'
    return ""


def _hint(name: str, names: Sequence[str], foreign_names: Mapping[str, Sequence[str]]) -> str:
    """`` (did you mean "oldText"?)`` if one of ``names`` is close to ``name``."""
    for ours, theirs in foreign_names.items():
        if ours in names and name.lower() in theirs:
            return f' (did you mean "{ours}"?)'
    found = process.extractOne(
        name[:_LONGEST_QUOTE],
        names,
        scorer=fuzz.WRatio,
        processor=utils.default_process,
        score_cutoff=_LIKENESS,
    )
    return f' (did you mean "{found[0]}"?)' if found else ""
