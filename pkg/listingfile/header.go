package listingfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
)

// What a header says of the files that this program reads and writes. A file without a header is taken for one of this version:
// there were files before there were headers.
const (
	Format  = "opportunity-listings"
	Version = 1
)

// Header is the first line of a file.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// NewHeader is the header of what this program writes.
func NewHeader() Header { return Header{Format, Version} }

// maxHeader is how many bytes of a file are looked at for its header.
const maxHeader = 4 << 10

// header judges the first line, if it is a header at all, and gives the file without it; the lines keep their numbers.
func header(r io.Reader) (api.Problems, io.Reader) {
	in := bufio.NewReaderSize(r, maxHeader)
	start, _ := in.Peek(maxHeader) // what kept it from reading more comes again
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
		case err != nil || len(h.Problems) > 0: // bytes do not fail
			problems = h.Problems
		case h.Value.Format != Format:
			problems.Add("format", "must be %s", Format)
		case h.Value.Version != Version:
			problems.Add("version", "must be %d: this program reads no other", Version)
		}
	}
	_, _ = in.Discard(len(line)) // the line feed stays, so that numbers do
	return problems, in
}
