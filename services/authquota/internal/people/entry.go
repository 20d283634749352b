package people

// Entry is a browser that has passed a step of signing in.
type Entry struct {
	Before string // secret of the session that this one replaces; empty if none
	Device string // secret of a known browser; empty if new
	Client Client
}

// Admitted holds the new secrets of a browser.
type Admitted struct {
	Session string
	Device  string
}
