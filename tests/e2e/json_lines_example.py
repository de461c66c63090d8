"""A session in ten lines, without stet's own library: JSON over the socket."""

# mypy: ignore-errors

import json, os, socket, sys  # noqa: E401, I001

connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["STET_RUNTIME_DIR"] + "/agent.sock")
wire = connection.makefile("rw")


def call(method, **params):
    print(json.dumps({"id": 1, "method": method, "params": params}), file=wire, flush=True)
    return json.loads(wire.readline())["result"]


call("hello", protocol=1, workspace=sys.argv[1], session="conv-1", agent="ten-lines")
print(call("patch", path="a.txt", patches={"operation": "append_eof", "newText": "hi\n"})["diff"])
print(call("log")["commits"][0]["message"], call("undo")["diff"], sep="\n")
