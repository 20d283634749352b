package load

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
)

// readResponse reads a response to a GET with status 200 or above, and returns its status and the length of its body.
func readResponse(in *bufio.Reader) (status int, body int64, err error) {
	line, err := readLine(in)
	if err != nil {
		return 0, 0, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, fmt.Errorf("unexpected status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, fmt.Errorf("unexpected status line %q", line)
	}
	length, chunked, err := readHeader(in)
	switch {
	case err != nil:
		return status, 0, err
	case chunked:
		body, err = discardChunks(in)
	case length >= 0:
		body = length
		err = discard(in, length)
	case status != 204 && status != 304:
		err = fmt.Errorf("status %d without the length of its body", status)
	}
	return status, body, err
}

// readHeader reads up to the empty line. length is -1 if there is none.
func readHeader(in *bufio.Reader) (length int64, chunked bool, err error) {
	for length = -1; ; {
		line, err := readLine(in)
		if err != nil || len(line) == 0 {
			return length, chunked, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return 0, false, err
			}
		case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked"))
		}
	}
}

func discardChunks(in *bufio.Reader) (body int64, err error) {
	for {
		line, err := readLine(in)
		if err != nil {
			return body, err
		}
		n, err := strconv.ParseInt(string(line), 16, 64)
		if err != nil {
			return body, err
		}
		if err := discard(in, n+2); err != nil || n == 0 { // with the line break after the chunk
			return body, err
		}
		body += n
	}
}

func discard(in *bufio.Reader, n int64) error {
	_, err := in.Discard(int(n))
	return err
}

// readLine returns the next line without its line break. It is valid until the next read.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}
