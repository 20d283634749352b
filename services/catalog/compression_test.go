package catalog_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/catalog/internal/listingtest"
)

func decompress(t *testing.T, coding, body string) string {
	t.Helper()
	if coding == "" {
		return body
	}
	var in io.Reader
	var err error
	switch coding {
	case "gzip":
		in, err = gzip.NewReader(strings.NewReader(body))
	case "zstd":
		in, err = zstd.NewReader(strings.NewReader(body))
	}
	require.NoError(t, err)
	plain, err := io.ReadAll(in)
	require.NoError(t, err)
	return string(plain)
}

// The clock of the test does not advance, so all responses have the same time and must be equal.
func TestCompressedResponsesEqualTheOthers(t *testing.T) {
	s := start(t, schema.SQLite(t))
	s.load(listingtest.Records(5, 260, startTime))
	request := func(method, path, accept string, headers ...string) servicetest.Response {
		return s.Do(method, path, nil, append(headers, api.CallerHeader, caller(api.Commercial), "Accept-Encoding",
			accept)...)
	}
	const list = "/api/v1/opportunities"
	id := s.list(api.Commercial, list).Data[0].ID
	for _, path := range []string{
		list + "?limit=100", list + "?limit=100&page=2", list + "?limit=99&page=2", list + "?limit=1",
		list + "?page=9999",
		list + "?verified=true&limit=50", "/api/jobs?limit=100", list + "/" + id,
	} {
		plain := request(http.MethodGet, path, "identity")
		for accept, coding := range map[string]string{
			"gzip": "gzip", "zstd": "zstd", "gzip, deflate, br, zstd": "gzip", "gzip;q=0": "", "br": "",
		} {
			for range 2 { // built, then cached
				a := request(http.MethodGet, path, accept, "Range", "bytes=0-9")
				require.Equal(t, http.StatusOK, a.Status, "ranges are not supported")
				require.Equal(t, coding, a.Header.Get("Content-Encoding"), "%s %s", path, accept)
				require.Equal(t, strconv.Itoa(len(a.Body)), a.Header.Get("Content-Length"))
				require.Equal(t, []string{"Accept-Encoding", "Authorization"}, a.Header.Values("Vary"))
				require.Equal(t, plain.Header.Get("ETag"), a.Header.Get("ETag"))
				require.Equal(t, plain.Header.Get("Link"), a.Header.Get("Link"))
				require.Equal(t, plain.Body, decompress(t, coding, a.Body), "%s %s", path, accept)

				head := request(http.MethodHead, path, accept)
				require.Empty(t, head.Body)
				for _, name := range []string{"Content-Encoding", "Content-Length", "ETag", "Vary"} {
					require.Equal(t, a.Header.Values(name), head.Header.Values(name), "%s of a HEAD", name)
				}
			}
			unchanged := request(http.MethodGet, path, accept, "If-None-Match", plain.Header.Get("ETag"))
			require.Equal(t, http.StatusNotModified, unchanged.Status)
			require.Empty(t, unchanged.Header.Get("Content-Encoding"))
			require.Equal(t, []string{"Accept-Encoding", "Authorization"}, unchanged.Header.Values("Vary"))
		}
	}
	invalid := request(http.MethodGet, list+"?limit=0", "gzip")
	require.Equal(t, http.StatusBadRequest, invalid.Status)
	require.Empty(t, invalid.Header.Get("Content-Encoding"))
}
