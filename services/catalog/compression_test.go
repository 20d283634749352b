package catalog_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/oracle"
)

func decompress(t *testing.T, coding string, body []byte) string {
	t.Helper()
	if coding == "" {
		return string(body)
	}
	var in io.Reader
	var err error
	switch coding {
	case "gzip":
		in, err = gzip.NewReader(bytes.NewReader(body))
	case "zstd":
		in, err = zstd.NewReader(bytes.NewReader(body))
	}
	require.NoError(t, err)
	plain, err := io.ReadAll(in)
	require.NoError(t, err)
	return string(plain)
}

// The clock of the test does not advance, so all responses have the same time and must be equal.
func TestCompressedResponsesEqualTheOthers(t *testing.T) {
	s := start(t, schema.SQLite(t))
	s.load(oracle.Records(5, 260, startTime))
	request := func(method, path, accept string, header http.Header) response {
		for name, values := range callerHeader(api.Commercial) {
			header[name] = values
		}
		header.Set("Accept-Encoding", accept)
		return s.do(method, path, "", header)
	}
	const list = "/api/v1/opportunities"
	id := s.list(api.Commercial, list).Data[0].ID
	for _, path := range []string{
		list + "?limit=100", list + "?limit=100&page=2", list + "?limit=99&page=2", list + "?limit=1", list + "?page=9999",
		list + "?verified=true&limit=50", "/api/jobs?limit=100", list + "/" + id,
	} {
		plain := request(http.MethodGet, path, "identity", http.Header{})
		for accept, coding := range map[string]string{
			"gzip": "gzip", "zstd": "zstd", "gzip, deflate, br, zstd": "gzip", "gzip;q=0": "", "br": "",
		} {
			if path == list+"?page=9999" {
				coding = "" // no records
			}
			for range 2 { // built, then cached
				a := request(http.MethodGet, path, accept, http.Header{"Range": {"bytes=0-9"}})
				require.Equal(t, http.StatusOK, a.status, "ranges are not supported")
				require.Equal(t, coding, a.header.Get("Content-Encoding"), "%s %s", path, accept)
				require.Equal(t, strconv.Itoa(len(a.body)), a.header.Get("Content-Length"))
				require.Equal(t, []string{"Accept-Encoding", "Authorization"}, a.header.Values("Vary"))
				require.Equal(t, plain.header.Get("ETag"), a.header.Get("ETag"))
				require.Equal(t, plain.header.Get("Link"), a.header.Get("Link"))
				require.Equal(t, string(plain.body), decompress(t, coding, a.body), "%s %s", path, accept)

				head := request(http.MethodHead, path, accept, http.Header{})
				require.Empty(t, head.body)
				for _, name := range []string{"Content-Encoding", "Content-Length", "ETag", "Vary"} {
					require.Equal(t, a.header.Values(name), head.header.Values(name), "%s of a HEAD", name)
				}
			}
			unchanged := request(http.MethodGet, path, accept, http.Header{"If-None-Match": {plain.header.Get("ETag")}})
			require.Equal(t, http.StatusNotModified, unchanged.status)
			require.Empty(t, unchanged.header.Get("Content-Encoding"))
			require.Equal(t, []string{"Accept-Encoding", "Authorization"}, unchanged.header.Values("Vary"))
		}
	}
	invalid := request(http.MethodGet, list+"?limit=0", "gzip", http.Header{})
	require.Equal(t, http.StatusBadRequest, invalid.status)
	require.Empty(t, invalid.header.Get("Content-Encoding"))
}

// curl decodes bodies of several parts.
func TestCurlDecodesLists(t *testing.T) {
	s := start(t, schema.SQLite(t))
	s.load(oracle.Records(6, 150, startTime))
	caller := api.CallerHeader + ": " + callerHeader(api.Commercial).Get(api.CallerHeader)
	path := "/api/v1/opportunities?limit=100"
	curl := exec.CommandContext(t.Context(), "curl", "--silent", "--fail", "--compressed", "-H", caller, "-H", "Authorization: Bearer "+token, s.url+path)
	got, err := curl.Output()
	require.NoError(t, err)
	require.Equal(t, string(s.get(api.Commercial, path).body), string(got))
}
