mark = "===FIND==="
