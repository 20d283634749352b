package opportunity

import "fmt"

// Tri is a fact with three values. The zero value is Unknown; in a filter, it means that the filter
// is not set.
type Tri int8

// The values of Tri.
const (
	Unknown Tri = iota
	False
	True
)

// Known reports whether the value is True or False.
func (t Tri) Known() bool { return t != Unknown }

// Bool returns the value and whether it is known.
func (t Tri) Bool() (value, known bool) { return t == True, t.Known() }

// String returns "true", "false" or "unknown".
func (t Tri) String() string {
	switch t {
	case True:
		return "true"
	case False:
		return "false"
	}
	return "unknown"
}

// MarshalJSON returns true, false or null.
func (t Tri) MarshalJSON() ([]byte, error) {
	if !t.Known() {
		return []byte("null"), nil
	}
	return []byte(t.String()), nil
}

// UnmarshalJSON accepts true, false and null.
func (t *Tri) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "true":
		*t = True
	case "false":
		*t = False
	case "null":
		*t = Unknown
	default:
		return fmt.Errorf("%s is not true, false or null", text)
	}
	return nil
}
