package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

const (
	stallTime    = 3 * api.UploadStall // without any byte of a file; the gateway, which sees the sender, is stricter
	responseTime = time.Minute         // to send the response after the deadline for the request body
)

// Extend replaces the listener's deadlines, which are for small requests: the request must arrive
// within that time from now, and the response within a minute more. It is necessary even without a
// body, because net/http cancels the context at the read deadline.
func Extend(g *gin.Context, within time.Duration) {
	deadline, c := time.Now().Add(within), http.NewResponseController(g.Writer)
	_ = c.SetReadDeadline(deadline) // fails only in tests without a connection
	_ = c.SetWriteDeadline(deadline.Add(responseTime))
}

// File calls read with the request body, a file from an operator of at most limit bytes, or of any
// size if limit is 0. It returns a problem.Error if the body is too large, stalls or is incomplete,
// and otherwise the error of read. The handler then has api.FileTimeout to respond.
func File(g *gin.Context, limit int64, read func(io.Reader) error) error {
	f := &file{g: g, body: g.Request.Body}
	if limit > 0 {
		f.body = http.MaxBytesReader(g.Writer, g.Request.Body, limit)
	}
	err := read(f)
	tooLarge := new(http.MaxBytesError)
	switch {
	case f.err == nil:
		Extend(g, api.FileTimeout)
		return err
	case errors.As(f.err, &tooLarge):
		return problem.New(problem.InvalidParameter, "The file must have at most %d bytes; send it in parts.", tooLarge.Limit)
	case errors.Is(f.err, os.ErrDeadlineExceeded):
		return problem.New(problem.InvalidParameter, "The file did not arrive in time.").Because(f.err)
	}
	return problem.New(problem.InvalidParameter, "The file could not be read to its end.").Because(f.err)
}

// file is a body that must not stall.
type file struct {
	g    *gin.Context
	body io.Reader
	err  error // of body, except io.EOF
}

func (f *file) Read(p []byte) (int, error) {
	Extend(f.g, stallTime)
	n, err := f.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}
