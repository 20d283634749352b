package jsonlines

import (
	"bytes"
	"encoding/json"
	"slices"
)

// NotUTF8 is the problem of a text in another encoding.
const NotUTF8 = "must be UTF-8: save the file as UTF-8"

// startSize is the number of bytes in which WrongFile looks.
const startSize = 4 << 10

// WrongFile returns what is wrong with a file as a whole, from its first bytes: it is empty,
// compressed, in another encoding or in another format. It returns an empty string if the lines
// decide. lines is whether the file must be JSON Lines; otherwise it must be CSV.
func WrongFile(start []byte, lines bool) string {
	text := bytes.TrimSpace(bytes.TrimPrefix(start, []byte("\ufeff")))
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	first = bytes.TrimSpace(first)
	begins := func(with ...string) bool {
		return slices.ContainsFunc(with, func(w string) bool { return bytes.HasPrefix(text, []byte(w)) })
	}
	switch {
	case len(start) == 0:
		return "the file is empty"
	case len(text) == 0:
		return "the file has only spaces and line breaks"
	case begins("PK\x03\x04", "\xd0\xcf\x11\xe0"):
		return "the file is a workbook or a ZIP archive: save the sheet as CSV in UTF-8, or unpack the archive"
	case begins("\x1f\x8b", "\x28\xb5\x2f\xfd", "BZh"):
		return "the file is compressed: unpack it first"
	case begins("\xff\xfe", "\xfe\xff") || bytes.IndexByte(start[:min(len(start), 4)], 0) >= 0:
		return "the file is in UTF-16 or UTF-32: save it as UTF-8"
	case begins("<"):
		return "the file is HTML or XML: save the file itself instead of a page about it"
	case bytes.IndexByte(text, '\r') >= 0 && bytes.IndexByte(start, '\n') < 0:
		return "the lines of the file end with carriage returns alone: save it with line feeds, in a spreadsheet as CSV UTF-8"
	case !lines && begins("{", "["):
		return "the file is JSON, and its name or format says CSV: let its name end in .jsonl"
	case !lines:
		return ""
	case begins("["):
		return "the file is a JSON array: write one object on each line, without brackets and commas around them, such as " +
			"with jq -c '.[]'"
	case begins("{") && len(rest) > 0 && (bytes.HasSuffix(first, []byte("{")) || !json.Valid(first) &&
		bytes.HasSuffix(first, []byte(","))):
		return "the file has objects over several lines: write each object on one line, such as with jq -c ."
	case !begins("{") && !json.Valid(first) && len(start) < startSize || !begins("{") && len(rest) > 0 &&
		!json.Valid(first):
		return "the file is not JSON Lines, one JSON object on each line; for CSV, let its name end in .csv"
	}
	return ""
}
