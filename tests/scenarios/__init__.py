"""Scenarios as data: what a call must make of a workspace, one folder a case.

    tests/scenarios/<dialect>/NNN_sentence_name/

The name is a sentence that states the behaviour; NNN is unique within its dialect.

    before/       the workspace's files before the call, exact bytes (absent: none)
    before.json   optional: {"modes": {"run.sh": "755"}, "links": {"link.txt": "target.txt"},
                  "directories": ["empty"], "clipboards": {"name": "text"}}
    call.json     the method's params; the method is the folder's dialect
    call.txt      patch_block and apply_patch: the text, put into params "text" or "input"
    after/        on success: the whole workspace after the call, exact bytes (absent: empty, or
                  as before when the reply says "changed": false)
    after.json    optional: {"modes", "links", "clipboards"}. Links and clipboards that are given
                  are all there are; not given, they are as before. Files that stay keep their
                  modes unless another is given
    reply.json    on success, given members are asserted: those of EditResult ("files" in any
                  order, of objects in lists the given members), and "changed": false for a call
                  that makes no commit
    error.json    on refusal, instead of after/ and reply.json: "kind", "message" (exact),
                  optional "failures" (list; of each the given members) and other members of the
                  error's data. Nothing may have changed then

``@ROOT@`` in call and expectations stands for the workspace's root. :mod:`scenarios.scenario`
reads the folders, :mod:`scenarios.ways` drives them, ``python -m scenarios.show`` prints what
one gives now, for a person to read.
"""
