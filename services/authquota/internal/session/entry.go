package session

// Entry is a browser that has shown what it takes to come in, or to get further.
type Entry struct {
	Before string // the secret of the session that ends with it; empty where there is none
	Device string // the secret of a browser that has signed in before; empty where it is new
	Client Client
}

// Admitted are the secrets that a browser gets.
type Admitted struct {
	Session string
	Device  string
}
