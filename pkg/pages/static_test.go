package pages_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/pages"
)

func load(t *testing.T, body string) pages.Files {
	t.Helper()
	files, err := pages.Load(fstest.MapFS{"static/own.js": {Data: []byte(body)}}, "static")
	require.NoError(t, err)
	return files
}

func TestServedNameChangesWithContent(t *testing.T) {
	one, err := load(t, "1").Name("own.js")
	require.NoError(t, err)
	two, err := load(t, "2").Name("own.js")
	require.NoError(t, err)
	require.Regexp(t, regexp.MustCompile(`^own\.[0-9a-f]{8}\.js$`), one)
	require.NotEqual(t, one, two)
	_, err = load(t, "1").Name("other.js")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestFilesAreServedUnderTheirServedNamesOnly(t *testing.T) {
	files := load(t, "own")
	shared, err := files.Name("style.css")
	require.NoError(t, err)
	own, err := files.Name("own.js")
	require.NoError(t, err)
	for name, kind := range map[string]string{shared: "text/css; charset=utf-8", own: "text/javascript; charset=utf-8"} {
		w := httptest.NewRecorder()
		require.True(t, files.Serve(w, httptest.NewRequest(http.MethodGet, "/", nil), name))
		require.Equal(t, kind, w.Header().Get("Content-Type"))
		require.NotEmpty(t, w.Body.String())
		w = httptest.NewRecorder()
		require.True(t, files.Serve(w, httptest.NewRequest(http.MethodHead, "/", nil), name))
		require.Empty(t, w.Body.String())
	}
	for _, name := range []string{"own.js", "own.00000000.js", "", "../static.go"} {
		w := httptest.NewRecorder()
		require.False(t, files.Serve(w, httptest.NewRequest(http.MethodGet, "/", nil), name), name)
		require.Empty(t, w.Header(), name)
	}
}
