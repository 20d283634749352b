package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// progressInterval is the time between two lines of progress, and before the first.
const progressInterval = 500 * time.Millisecond

// Progress returns a function that sends the progress of the request to a client that accepts api.ProgressType. Once the first line is sent,
// Handler sends the reply or the error as the last line. Call it after the request body was read.
func Progress(g *gin.Context) func(done, total int64) {
	if !strings.Contains(g.GetHeader("Accept"), api.ProgressType) {
		return func(int64, int64) {}
	}
	next := time.Now().Add(progressInterval)
	return func(done, total int64) {
		if now := time.Now(); now.Before(next) {
			return
		}
		next = time.Now().Add(progressInterval)
		g.Header("Content-Type", api.ProgressType)
		_ = json.NewEncoder(g.Writer).Encode(api.ProgressLine{Done: done, Total: total}) // fails only if the client disconnected
		g.Writer.Flush()
	}
}

// endProgress sends the last line.
func endProgress(g *gin.Context, errors problem.Writer, reply Reply, err error) {
	last := captured{header: http.Header{}}
	if err != nil {
		errors.Write(&last, g.Request, err)
	} else {
		last.status = reply.status()
		last.Write(reply.Body)
	}
	_ = json.NewEncoder(g.Writer).Encode(api.ProgressLine{Status: last.status, Body: last.Bytes()})
}

// captured is a response in memory.
type captured struct {
	bytes.Buffer

	header http.Header
	status int
}

func (c *captured) Header() http.Header    { return c.header }
func (c *captured) WriteHeader(status int) { c.status = status }
