package pages

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/problem"
)

//go:embed static
var statFS embed.FS

// file is a static file. Its name changes with its content, so that browsers can cache it indefinitely.
type file struct {
	kind string
	body []byte
	name string // such as style.0123abcd.css
}

// statics returns the static files by their source names and by the names under which they are served.
func statics() (map[string]file, error) {
	files := map[string]file{}
	entries, err := fs.ReadDir(statFS, "static")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		body, err := statFS.ReadFile("static/" + e.Name())
		if err != nil {
			return nil, err
		}
		ending := path.Ext(e.Name())
		sum := sha256.Sum256(body)
		f := file{body: body, kind: mime.TypeByExtension(ending)}
		f.name = strings.TrimSuffix(e.Name(), ending) + "." + hex.EncodeToString(sum[:4]) + ending
		files[e.Name()], files[f.name] = f, f
	}
	return files, nil
}

// asset returns the path of a static file.
func (s *Site) asset(name string) (string, error) {
	f, ok := s.files[name]
	if !ok {
		return "", fs.ErrNotExist
	}
	return home + "/static/" + f.name, nil
}

func (s *Site) static(g *gin.Context) {
	f, ok := s.files[g.Param("file")]
	if !ok || f.name != g.Param("file") {
		s.page(open, func(*Site, *visit) (view, error) {
			return view{}, problem.New(problem.NotFound, "This file does not exist.")
		})(g)
		return
	}
	h := g.Writer.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(f.body)))
	g.Status(http.StatusOK)
	g.Writer.WriteHeaderNow()
	if g.Request.Method != http.MethodHead {
		_, _ = g.Writer.Write(f.body)
	}
}
