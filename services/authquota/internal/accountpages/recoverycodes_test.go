package accountpages_test

import (
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

var codeFields = regexp.MustCompile(`<input type="hidden" name="code" value="([^"]+)">`)

// downloadCodes posts codes back as the form of the page does.
func downloadCodes(b *testkit.Person, codes ...string) testkit.Page {
	var form []string
	for _, c := range codes {
		form = append(form, "code", c)
	}
	return b.Post("/account/recovery-codes/download", form...)
}

func TestShownCodesCanBeDownloaded(t *testing.T) {
	s, b := person(t)
	b.Get("/account/recovery-codes").Shows(http.StatusOK, "10 of ten codes left")
	p := b.Post("/account/recovery-codes").Shows(http.StatusOK, "Save them now", "print this page with your browser", "ada@example.org")
	var codes []string
	for _, f := range codeFields.FindAllStringSubmatch(p.Body, -1) {
		codes = append(codes, f[1])
	}
	require.Len(t, codes, people.RecoveryCodeCount)

	file := downloadCodes(b, codes...)
	require.Equal(t, http.StatusOK, file.Status)
	require.Equal(t, "no-store", file.Header.Get("Cache-Control"))
	require.Equal(t, `attachment; filename="opportunity-recovery-codes.txt"`, file.Header.Get("Content-Disposition"))
	require.Equal(t, "text/plain; charset=utf-8", file.Header.Get("Content-Type"))
	require.Contains(t, file.Body, "ada@example.org")
	for _, c := range codes {
		require.Contains(t, file.Body, c)
	}

	s.Advance(time.Minute)
	b.Post("/account/sign-out")
	b.EnterPassword()
	b.Post("/account/sign-in/code", "code", codes[0]).Leads("/account")
	downloadCodes(b, codes...).Shows(http.StatusBadRequest, "no longer valid")
}

// The response must not tell whether a single code is valid, nor turn any text into a file of the
// site.
func TestOnlyWholeSetsAreDownloaded(t *testing.T) {
	_, b := person(t)
	codes := b.Codes
	for _, posted := range [][]string{{}, codes[:1], append(slices.Clone(codes), "x"), append(slices.Clone(codes[1:]), "<script>")} {
		require.NotContains(t, downloadCodes(b, posted...).Shows(http.StatusBadRequest, "no longer valid").Body, "<script>")
	}
}

func TestNewCodesNeedRecentProof(t *testing.T) {
	s, b := person(t)
	s.Advance(people.RecentProof + time.Minute)
	b.Post("/account/recovery-codes").Leads("/account/security/confirm?next=%2Faccount%2Frecovery-codes")
	require.Equal(t, http.StatusOK, downloadCodes(b, b.Codes...).Status, "the old codes stay, and the page with them may have been open for long")
}
