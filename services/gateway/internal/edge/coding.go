package edge

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

func (e *Edge) compressed(c *gin.Context) {
	if c.Request.Header["Accept-Encoding"] == nil || c.Request.Method == http.MethodHead {
		varied(c)
		return
	}
	e.compress(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.Writer = coder{c.Writer, w}
		c.Next()
	})).ServeHTTP(c.Writer, c.Request)
}

// static compresses only the static files of pages. Pages may contain secrets: if an attacker can
// put text into one, its compressed size reveals the secret (BREACH).
func (e *Edge) static(c *gin.Context) {
	if strings.HasPrefix(c.Request.URL.Path, string(opAccount)+"/static/") {
		e.compressed(c)
		return
	}
	varied(c)
}

func varied(c *gin.Context) {
	c.Writer.Header()["Vary"] = []string{"Accept-Encoding"}
	if c.Request.Header["Accept-Encoding"] != nil {
		c.Writer = lengthless{c.Writer}
	}
	c.Next()
}

type coder struct {
	gin.ResponseWriter
	coded http.ResponseWriter
}

func (c coder) WriteHeader(status int)            { c.coded.WriteHeader(status) }
func (c coder) Write(b []byte) (int, error)       { return c.coded.Write(b) }
func (c coder) WriteString(s string) (int, error) { return c.coded.Write([]byte(s)) }
func (c coder) Unwrap() http.ResponseWriter       { return c.coded }

// lengthless drops the Content-Length of a HEAD response whose GET might be compressed: the
// compressed length is unknown.
type lengthless struct{ gin.ResponseWriter }

func (l lengthless) WriteHeader(status int) {
	l.Header().Del("Content-Length")
	l.ResponseWriter.WriteHeader(status)
}

func (l lengthless) Unwrap() http.ResponseWriter { return l.ResponseWriter }
