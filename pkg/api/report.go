package api

// ImportReport is the catalog's answer to an import: Applied is false iff a line was refused, and then nothing was changed.
type ImportReport struct {
	Applied   bool      `json:"applied"`
	Created   int       `json:"created"`
	Updated   int       `json:"updated"`
	Unchanged int       `json:"unchanged"`
	Refused   []Refusal `json:"refused"` // in the order of the file; empty, never null
	Omitted   int       `json:"omitted"` // refused lines beyond those in Refused, of which there is a most
}

// AppendReport is the history's answer to an append: Applied is false iff a line was refused, and then nothing was changed.
type AppendReport struct {
	Applied    bool      `json:"applied"`
	Appended   int       `json:"appended"`
	Duplicates int       `json:"duplicates"` // lines that were recorded before, or twice in the file
	Refused    []Refusal `json:"refused"`    // in the order of the file; empty, never null
	Omitted    int       `json:"omitted"`    // refused lines beyond those in Refused, of which there is a most
}

// Refusal names a line of a file and everything that is wrong with it.
type Refusal struct {
	Line     int      `json:"line"` // counted from 1, blank lines included
	ID       string   `json:"id"`   // of the record that the line speaks of, where it could be read
	Problems Problems `json:"problems"`
}
