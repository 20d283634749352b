package admin

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// upload is the request body. It sets the deadlines of the connection, because those of the
// listener are for small requests. A sender that stalls, or sends fewer than api.UploadBlock bytes
// in api.UploadStall, is cut off; the time in which the service does not read does not count. Read
// errors become 400, so that a failed upload is not reported as a failure of the service.
type upload struct {
	io.ReadCloser
	conn    *http.ResponseController
	respond time.Duration // time for the response after the body
	block   int           // bytes that are missing in the current block
	left    time.Duration // for these bytes
}

// newUpload returns the body of r. A body that is no file of any size is limited to api.MaxFile.
func newUpload(w http.ResponseWriter, r *http.Request, file bool) *upload {
	u := &upload{r.Body, http.NewResponseController(w), api.OperatorTimeout, api.UploadBlock, api.UploadStall}
	if file {
		u.respond = api.FileTimeout + time.Minute // the service responds earlier
	} else {
		u.ReadCloser = http.MaxBytesReader(w, r.Body, api.MaxFile)
	}
	u.extend(u.respond)
	return u
}

// extend sets the deadline for reading. Errors of the connection show when it is used.
func (u *upload) extend(read time.Duration) {
	now := time.Now()
	_ = u.conn.SetReadDeadline(now.Add(read))
	_ = u.conn.SetWriteDeadline(now.Add(u.respond))
}

func (u *upload) Read(p []byte) (int, error) {
	begun := time.Now()
	u.extend(u.left)
	n, err := u.ReadCloser.Read(p)
	if u.left, u.block = u.left-time.Since(begun), u.block-n; u.block <= 0 {
		u.left, u.block = api.UploadStall, api.UploadBlock
	}
	if errors.Is(err, io.EOF) {
		// The server keeps reading to detect a disconnect, and a passed read deadline would look
		// like one.
		u.extend(u.respond)
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		err = problem.New(problem.InvalidParameter, "The file is larger than %d MiB; send it in parts.",
			tooLarge.Limit>>20).Because(err)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		err = problem.New(problem.InvalidParameter, "The file did not arrive in time.").Because(err)
	}
	return n, err
}
