package operator

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"opportunity.internal/pkg/api"
)

// Progress is called with the number of lines that the service has processed, and that of all lines, while it imports a file. It may be nil.
type Progress func(done, total int64)

// sendFile sends a file and returns the response like call.
func sendFile[T any](ctx context.Context, c Client, path string, file io.Reader, progress Progress) (out T, raw []byte, err error) {
	resp, err := c.do(ctx, http.MethodPost, path, file, "Accept", api.ProgressType+", application/json")
	if err != nil {
		return out, nil, err
	}
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), api.ProgressType) {
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return out, nil, Unreachable(c.URL, err)
		}
		return decode[T](c, resp, raw)
	}
	lines := json.NewDecoder(resp.Body)
	for {
		var line api.ProgressLine
		if err := lines.Decode(&line); err != nil {
			return out, nil, Unreachable(c.URL, err)
		}
		if line.Status == 0 {
			if progress != nil {
				progress(line.Done, line.Total)
			}
			continue
		}
		resp.StatusCode = line.Status
		if hasReport(line.Status) {
			return decode[T](c, resp, line.Body)
		}
		var e api.Error
		if json.Unmarshal(line.Body, &e) != nil || e.Error.Code == "" {
			return out, nil, Unexpected(c.URL, resp.StatusCode, resp.Header)
		}
		return out, nil, c.rejected(resp, e)
	}
}
