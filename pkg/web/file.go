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
	workTime     = 2 * time.Minute // to process a file after it was received
	responseTime = time.Minute     // to send the response after the deadline for the request body
)

// Extend replaces the listener's deadlines, which are for small requests: the request must arrive within that time from now, and the
// response within a minute more. It is necessary even without a body, because net/http cancels the context at the read deadline.
func Extend(g *gin.Context, within time.Duration) {
	deadline, c := time.Now().Add(within), http.NewResponseController(g.Writer)
	_ = c.SetReadDeadline(deadline) // fails only in tests without a connection
	_ = c.SetWriteDeadline(deadline.Add(responseTime))
}

// File calls read with the request body, a file from an operator. It returns a problem.Error if the body is too large, late or incomplete.
// read must not return an error for invalid content of the file.
func File(g *gin.Context, read func(io.Reader) error) error {
	Extend(g, api.UploadTimeout)
	err := read(http.MaxBytesReader(g.Writer, g.Request.Body, api.MaxFile))
	tooLarge := new(http.MaxBytesError)
	switch {
	case err == nil:
		Extend(g, workTime)
		return nil
	case errors.As(err, &tooLarge):
		return problem.New(problem.InvalidParameter, "The file must have at most %d bytes; send it in parts.", tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.New(problem.InvalidParameter, "The file did not arrive in time.").Because(err)
	}
	return problem.New(problem.InvalidParameter, "The file could not be read to its end.").Because(err)
}
