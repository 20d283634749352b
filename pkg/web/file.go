package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/problem"
)

const (
	maxFile    = 64 << 20        // bytes of a file, which is judged as a whole and therefore held in memory
	fileTime   = 5 * time.Minute // for a file to arrive, as at the gateway
	workTime   = 2 * time.Minute // from there on, for what is done with it
	answerTime = time.Minute     // beyond the time for a body, so that a refusal of a late one still reaches its sender
)

// Extend gives a request until within from now to arrive, and its answer a little longer, in place of the listener's limits,
// which are for small ones. It matters without a body too: when the time to read is over, net/http takes the caller for gone
// and ends the context.
func Extend(g *gin.Context, within time.Duration) {
	deadline, c := time.Now().Add(within), http.NewResponseController(g.Writer)
	_ = c.SetReadDeadline(deadline) // only a writer that stands for no connection has none
	_ = c.SetWriteDeadline(deadline.Add(answerTime))
}

// File hands the body, an operator's file, to read and tells what kept it from being read to its end. What read itself finds
// wrong with the file is no error.
func File(g *gin.Context, read func(io.Reader) error) error {
	Extend(g, fileTime)
	err := read(http.MaxBytesReader(g.Writer, g.Request.Body, maxFile))
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
