"""Requests against the models of tool inputs, and what a refusal tells a language model.

Every mistake becomes a failure of its own (``invalid_params``), with the expected fields, what
was received, and the nearest field for a name that is misspelt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from rapidfuzz import fuzz, process, utils

from stet.wire.failures import Failure, Kind, Refused
from stetd.editing.inputs.base import MAX_ELEMENTS, ToolInput

Input = TypeVar("Input", bound=ToolInput)

#: Likeness (0 to 100) from which a misspelt name is taken for a field in the answer's advice.
_LIKENESS = 60

#: Characters of what was received that a refusal repeats.
_LONGEST_QUOTE = 80


def validated(model: type[Input], params: Mapping[str, object], noun: str = "item") -> Input:
    """``params`` as ``model``; ``noun`` is the word for an element of its list.

    Raises Refused (invalid_params) with a failure for every field that is wrong.
    """
    try:
        return model.model_validate(dict(params))
    except ValidationError as error:
        failures = [_failure(model, noun, each) for each in error.errors(include_url=False)]
        raise Refused(*failures) from None


def _failure(model: type[ToolInput], noun: str, error: ErrorDetails) -> Failure:
    """A mistake that pydantic found, as a sentence for the model."""
    place = error["loc"]
    index = place[1] if len(place) > 1 and isinstance(place[1], int) else None
    owner = _owner(model, place)
    label = "" if index is None else f"{noun} {index + 1}: "
    field = _dotted(place)
    if error["type"] == "extra_forbidden":
        hint = _belongs(model, owner, field)
        hint = hint or _hint(field.rpartition(".")[2], _names(owner), owner.elsewhere)
        sentence = f'unknown field "{_cut(field)}"{hint}. Expected fields: {_fields(owner)}.'
    else:
        sentence = _sentence(error, owner, field)
    return Failure(Kind.INVALID_PARAMS.value, f"{label}{sentence}", index=index)


def _sentence(error: ErrorDetails, owner: type[ToolInput], field: str) -> str:
    """What was wrong with ``field`` of ``owner``, what was received, what is expected."""
    expected = f"Expected fields: {_fields(owner)}."
    received = _received(error["input"])
    where = f'"{field}" ' if field else ""
    match error["type"]:
        case "missing":
            return f'"{field}" is missing. {expected} Received: {received}.'
        case "literal_error":
            choices = error["ctx"]["expected"]
            hint = _hint(str(error["input"]), [each.strip("'") for each in _words(choices)], {})
            return f'"{field}" must be {choices}; received {received}{hint}.'
        case "broken_json":
            what = "a list of objects" if field in _lists(owner) else "an object"
            return f"{where}must be {what}; received {error['msg']}. {expected}"
        case "too_long":
            return f'"{field}" has more than {MAX_ELEMENTS:,} elements; send fewer in a call.'
        case "too_short" | "string_too_short":
            return f'"{field}" is empty. {expected}'
        case kind if kind in _WANTED:
            return f"{where}must be {_WANTED[kind]}; received {received}. {expected}"
    return f'"{field}": {error["msg"]}; received {received}. {expected}'


#: What a field of the wrong type should have been, by pydantic's name of the mistake.
_WANTED = {
    "string_type": "a string",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list of objects",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
}


def _owner(model: type[ToolInput], place: Sequence[str | int]) -> type[ToolInput]:
    """The model whose fields the last name in ``place`` belongs to, or that it is to hold."""
    lists = _lists(model)
    for part, following in zip(place, [*place[1:], None], strict=True):
        if isinstance(part, int):
            continue
        inner = lists.get(part) if isinstance(following, int) else _objects(model).get(part)
        if inner is None:
            break
        model, lists = inner, _lists(inner)
    return model


def _lists(model: type[ToolInput]) -> dict[str, type[ToolInput]]:
    """The fields of ``model`` that are lists of objects, with the models of these."""
    return {
        field.alias or name: found
        for name, field in model.model_fields.items()
        if get_origin(field.annotation) is list and (found := _model_in(field.annotation))
    }


def _objects(model: type[ToolInput]) -> dict[str, type[ToolInput]]:
    """The fields of ``model`` that are single objects, with their models."""
    return {
        field.alias or name: found
        for name, field in model.model_fields.items()
        if get_origin(field.annotation) is not list and (found := _model_in(field.annotation))
    }


def _model_in(annotation: object) -> type[ToolInput] | None:
    if isinstance(annotation, type) and issubclass(annotation, ToolInput):
        return annotation
    inner = (_model_in(each) for each in get_args(annotation))
    return next(filter(None, inner), None)


def _dotted(place: Sequence[str | int]) -> str:
    """``reindent.strip``: the field within its patch; ``patches`` itself within the call."""
    after_index = [n for n, part in enumerate(place) if isinstance(part, int)]
    names = place[after_index[-1] + 1 :] if after_index else place
    return ".".join(str(part) for part in names)


def _names(model: type[ToolInput]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _fields(model: type[ToolInput]) -> str:
    """``path (required), patches (required)``."""
    return ", ".join(
        f"{field.alias or name} (required)" if field.is_required() else field.alias or name
        for name, field in model.model_fields.items()
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


def _words(choices: str) -> list[str]:
    return choices.replace(" or ", ", ").split(", ")


def _belongs(model: type[ToolInput], owner: type[ToolInput], field: str) -> str:
    """Where a field belongs that was put one level too high or too low."""
    for name, element in _lists(model).items():
        if owner is model and field in _names(element):
            return f' (it belongs into the objects of the list "{name}")'
        if owner is element and field in _names(model):
            return f' (it belongs beside "{name}", not into it)'
    return ""


def _hint(name: str, names: Sequence[str], elsewhere: Mapping[str, Sequence[str]]) -> str:
    """`` (did you mean "oldText"?)`` if one of ``names`` is close to ``name``."""
    for ours, theirs in elsewhere.items():
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
