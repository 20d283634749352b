package e2e

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// TestRubbishOnTheSocket checks that malformed requests close only their own connection.
func TestRubbishOnTheSocket(t *testing.T) {
	d := shared(t)
	key := d.issue(t, api.Developer).Key
	address := strings.TrimPrefix(d.url, "http://")
	const get = "GET /api/v1/opportunities HTTP/1.1\r\nHost: x\r\n"
	half, err := net.Dial("tcp", address) //nolint:noctx // closed below
	require.NoError(t, err)
	defer half.Close()
	_, err = io.WriteString(half, get) // and never the rest
	require.NoError(t, err)
	for name, c := range map[string]struct{ sent, status string }{
		"TLS": {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 64) + "\r\n\r\n",
			"HTTP/1.1 400"},
		"no HTTP":            {"hello\r\n\r\n", "HTTP/1.1 400"},
		"a header too large": {get + "Authorization: Bearer " + strings.Repeat("k", 100_000) + "\r\n\r\n", "HTTP/1.1 431"},
		"a URL too large": {"GET /api/jobs?country=" + strings.Repeat("C", 100_000) + " HTTP/1.1\r\nHost: x\r\n\r\n",
			"HTTP/1.1 4"},
		"two lengths":           {get + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 400"},
		"a header with newline": {get + "X-A: b\rc\r\n\r\n", "HTTP/1.1 4"},
		"another host's URL": {"GET http://other.example/api/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 401"},
		"a tunnel": {"CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 40"},
		"a large body": {get + "Connection: close\r\nAuthorization: Bearer " + key +
			"\r\nContent-Length: 1000000000\r\n\r\nx", "HTTP/1.1 400"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", address) //nolint:noctx // closed below
			require.NoError(t, err)
			defer conn.Close()
			_, _ = io.WriteString(conn, c.sent) // the server may close before it has read all of it
			status := make([]byte, len(c.status))
			_, err = io.ReadFull(conn, status)
			require.NoError(t, err)
			require.Equal(t, c.status, string(status))
			require.Equal(t, http.StatusOK, do(t, d.url, call{path: "/api/v1/opportunities?limit=1", key: key}).StatusCode)
		})
	}
}
