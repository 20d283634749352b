package account

// Page is a page of a list: up to Limit entries after an ID. A Limit of 0 means all.
type Page struct {
	After string
	Limit int
}
