func f() {
	if x {
		return
	}
}
