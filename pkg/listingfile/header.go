package listingfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
)

// Format and Version are the values in the header of a file. A file without a header is read as
// this version, because old files have none.
const (
	Format  = "opportunity-listings"
	Version = 1
)

// Header is the first line of a file.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// NewHeader returns the header of files with this Format and Version.
func NewHeader() Header { return Header{Format, Version} }

// maxHeader is the maximum length of a header in bytes.
const maxHeader = 4 << 10

// header reads and validates the header of a file, if it has one. It returns the file with a blank
// first line in its place, so line numbers stay the same, or nil if nothing follows the header.
func header(r io.Reader) (api.Problems, io.Reader) {
	in := bufio.NewReaderSize(r, maxHeader)
	start, _ := in.Peek(maxHeader) // reading from in returns the error again
	line, _, ended := bytes.Cut(start, []byte("\n"))
	if !ended && len(start) == maxHeader {
		return nil, in
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
	var named map[string]json.RawMessage
	if json.Unmarshal(text, &named) != nil || named["format"] == nil {
		return nil, in
	}
	var problems api.Problems
	for h, err := range jsonlines.Read[Header](bytes.NewReader(text)) { // once
		switch {
		case err != nil || len(h.Problems) > 0: // err is always nil: a bytes.Reader does not fail
			problems = h.Problems
		case h.Value.Format != Format:
			problems.Add("format", "must be %s", Format)
		case h.Value.Version != Version:
			problems.Add("version", "must be %d: this release reads no other version", Version)
		}
	}
	_, _ = in.Discard(len(line)) // keeps the line feed, for the line numbers
	if rest, err := in.Peek(maxHeader); errors.Is(err, io.EOF) && len(bytes.TrimSpace(rest)) == 0 {
		return problems, nil
	}
	return problems, in
}
