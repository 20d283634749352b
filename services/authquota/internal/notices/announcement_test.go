package notices_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/notices"
)

func TestAnnouncementsAreChecked(t *testing.T) {
	good := notices.Announcement{ID: "terms-2027-01", Kind: notices.TermsChange, Subject: " New terms ", Text: "\r\nOne\r\ntwo \n\n\n\nThree\n"}
	got, err := good.Check()
	require.NoError(t, err)
	require.Equal(t, "New terms", got.Subject)
	require.Equal(t, "One\ntwo\n\nThree", got.Text)

	for field, spoil := range map[string]func(*notices.Announcement){
		"id":      func(a *notices.Announcement) { a.ID = "Terms 2027" },
		"kind":    func(a *notices.Announcement) { a.Kind = "advertisement" },
		"subject": func(a *notices.Announcement) { a.Subject = "New\nBcc: bob@example.org" },
		"text":    func(a *notices.Announcement) { a.Text = " \n" },
	} {
		a := good
		spoil(&a)
		_, err := a.Check()
		require.ErrorContains(t, err, "Parameter "+field, field)
	}
	for _, text := range []string{strings.Repeat("long\n", 2_001), "fine\n" + strings.Repeat("x", 2_001), "a\x00b", "see oda_live_0000"} {
		a := good
		a.Text = text
		_, err := a.Check()
		require.ErrorContains(t, err, "Parameter text")
	}
}
