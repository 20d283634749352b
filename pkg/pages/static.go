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
)

//go:embed files
var shared embed.FS

// Files are static files by their source names and by the names under which they are served. A
// served name, such as style.0123abcd.css, changes with the content, so that browsers can cache the
// file indefinitely.
type Files map[string]file

type file struct {
	kind, name string
	body       []byte
}

// Load returns the shared files and those in the directory dir of own, which replace shared files
// of the same name.
func Load(own fs.FS, dir string) (Files, error) {
	f := Files{}
	if err := f.add(shared, "files"); err != nil {
		return nil, err
	}
	if own == nil {
		return f, nil
	}
	return f, f.add(own, dir)
}

func (f Files) add(in fs.FS, dir string) error {
	entries, err := fs.ReadDir(in, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		body, err := fs.ReadFile(in, dir+"/"+e.Name())
		if err != nil {
			return err
		}
		ending := path.Ext(e.Name())
		sum := sha256.Sum256(body)
		name := strings.TrimSuffix(e.Name(), ending) + "." + hex.EncodeToString(sum[:4]) + ending
		f[e.Name()] = file{mime.TypeByExtension(ending), name, body}
		f[name] = f[e.Name()]
	}
	return nil
}

// Name returns the name under which a source file is served. It returns fs.ErrNotExist if there is
// no such file.
func (f Files) Name(source string) (string, error) {
	found, ok := f[source]
	if !ok {
		return "", fs.ErrNotExist
	}
	return found.name, nil
}

// All returns the content of each file by the name under which it is served.
func (f Files) All() map[string][]byte {
	all := map[string][]byte{}
	for _, file := range f {
		all[file.name] = file.body
	}
	return all
}

// Serve writes the file that is served as name. It writes nothing and returns false if there is
// none.
func (f Files) Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	found, ok := f[name]
	if !ok || found.name != name {
		return false
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Type", found.kind)
	h.Set("Content-Length", strconv.Itoa(len(found.body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(found.body)
	}
	return true
}
