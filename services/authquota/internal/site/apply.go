package site

import "context"

// Apply makes committed changes of an account take effect on every gateway. After an error they take effect later,
// automatically.
type Apply func(ctx context.Context, accountID string) error

// Notice applies the committed changes of the person's account and returns text, with a note if they take effect later.
func (apply Apply) Notice(v *Visit, text string) string {
	if apply(v.Request.Context(), v.Person.Account) != nil {
		text += " This takes effect shortly: part of our service is temporarily unavailable."
	}
	return text
}
