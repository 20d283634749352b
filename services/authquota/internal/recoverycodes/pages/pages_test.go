package pages_test

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/site/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m, "templates") }

// store is a fake that stores the hashes of unused codes.
type store struct{ hashes []string }

func (s *store) RenewCodes(_ context.Context, _ string, hashes []string) error {
	s.hashes = hashes
	return nil
}

func (s *store) CodesUnused(_ context.Context, _ string, hashes []string) (bool, error) {
	return !slices.ContainsFunc(hashes, func(h string) bool { return !slices.Contains(s.hashes, h) }), nil
}

func start(t *testing.T) (*sitetest.Site, *store) {
	t.Helper()
	fake := new(store)
	return sitetest.New(t, func(*sitetest.Site) []site.Feature {
		return []site.Feature{(&pages.Pages{Renewals: fake, UnusedCodes: fake}).Feature()}
	}), fake
}

var fields = regexp.MustCompile(`<input type="hidden" name="code" value="([^"]+)">`)

// download posts codes back as the form of the page does.
func download(s *sitetest.Site, codes ...string) sitetest.Page {
	var form []string
	for _, c := range codes {
		form = append(form, "code", c)
	}
	return s.Post("/account/recovery-codes/download", form...)
}

func TestShownCodesCanBeDownloaded(t *testing.T) {
	s, store := start(t)
	s.Person.RecoveryCodesLeft = 3
	s.Get("/account/recovery-codes").Shows(http.StatusOK, "3 of ten codes left")
	p := s.Post("/account/recovery-codes").Shows(http.StatusOK, "Save them now", "print this page with your browser", "ada@example.org")
	var codes []string
	for _, f := range fields.FindAllStringSubmatch(p.Body, -1) {
		codes = append(codes, f[1])
	}
	require.Len(t, codes, people.RecoveryCodeCount)

	file := download(s, codes...)
	require.Equal(t, http.StatusOK, file.Status)
	require.Equal(t, "no-store", file.Header.Get("Cache-Control"))
	require.Equal(t, `attachment; filename="opportunity-recovery-codes.txt"`, file.Header.Get("Content-Disposition"))
	require.Equal(t, "text/plain; charset=utf-8", file.Header.Get("Content-Type"))
	require.Contains(t, file.Body, "ada@example.org")
	for _, c := range codes {
		require.Contains(t, file.Body, c)
	}

	store.hashes = store.hashes[1:]
	download(s, codes...).Shows(http.StatusBadRequest, "no longer valid")
}

// The response must not tell whether a single code is valid, nor turn any text into a file of the site.
func TestOnlyWholeSetsAreDownloaded(t *testing.T) {
	s, store := start(t)
	codes, hashes := people.NewRecoveryCodes()
	store.hashes = hashes
	for _, posted := range [][]string{{}, codes[:1], append(slices.Clone(codes), "x"), append(slices.Clone(codes[1:]), "<script>")} {
		require.NotContains(t, download(s, posted...).Shows(http.StatusBadRequest, "no longer valid").Body, "<script>")
	}
}

func TestNewCodesNeedRecentProof(t *testing.T) {
	s, store := start(t)
	codes, hashes := people.NewRecoveryCodes()
	s.Now = s.Now.Add(people.RecentProof + time.Minute)
	s.Post("/account/recovery-codes").Leads("/account/security/confirm?next=%2Faccount%2Frecovery-codes")
	require.Empty(t, store.hashes)
	store.hashes = hashes
	require.Equal(t, http.StatusOK, download(s, codes...).Status, "the page with the codes may have been open for long")
}
