mark = "===REPLACE==="  # ===FIND===
