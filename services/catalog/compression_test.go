package catalog_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/catalog/internal/listingtest"
)

// Package httpapi tests the codings. The clock of the test does not advance, so all responses have
// the same time and must be equal.
func TestCompressedResponsesEqualTheOthers(t *testing.T) {
	s := start(t, schema.SQLite(t))
	s.load(listingtest.Records(5, 120, startTime))
	request := func(path, accept string, headers ...string) servicetest.Response {
		return s.get(api.Commercial, path, append(headers, "Accept-Encoding", accept)...)
	}
	const list = "/api/v1/opportunities"
	for _, path := range []string{list + "?limit=100", "/api/jobs?limit=50&page=2",
		list + "/" + s.list(api.Commercial, list).Data[0].ID} {
		plain := request(path, "identity")
		for range 2 { // built, then cached
			a := request(path, "gzip", "Range", "bytes=0-9")
			require.Equal(t, http.StatusOK, a.Status, "ranges are not supported")
			require.Equal(t, "gzip", a.Header.Get("Content-Encoding"))
			require.Equal(t, strconv.Itoa(len(a.Body)), a.Header.Get("Content-Length"))
			require.Equal(t, []string{"Accept-Encoding", "Authorization"}, a.Header.Values("Vary"))
			require.Equal(t, plain.Header.Get("ETag"), a.Header.Get("ETag"))
			in, err := gzip.NewReader(strings.NewReader(a.Body))
			require.NoError(t, err)
			body, err := io.ReadAll(in)
			require.NoError(t, err)
			require.Equal(t, plain.Body, string(body), path)
		}
		unchanged := request(path, "gzip", "If-None-Match", plain.Header.Get("ETag"))
		require.Equal(t, http.StatusNotModified, unchanged.Status)
		require.Empty(t, unchanged.Header.Get("Content-Encoding"))
		require.Equal(t, []string{"Accept-Encoding", "Authorization"}, unchanged.Header.Values("Vary"))
	}
	require.Empty(t, request(list+"?limit=0", "gzip").Header.Get("Content-Encoding"), "of an error")
}
