// Package jsonlines reads JSON Lines files from curators strictly: each line either decodes
// exactly, or is returned with all its problems.
//
// It is stricter than encoding/json, which silently accepts many mistakes. Names are
// case-sensitive. Unknown names, repeated names, nulls in non-nullable fields, missing numbers
// (which would decode as zero), and numbers that would be rounded are problems. So are invalid
// UTF-8 and U+0000, which Postgres cannot store. A file that is wrong as a whole has one problem
// instead of one for each line.
package jsonlines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"reflect"
	"runtime"
	"sync"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
)

// MaxLine is the maximum length of a line in bytes.
const MaxLine = 1 << 20

// Line is a line that is not blank. If it has Problems, Value has only the fields that could be
// read.
type Line[T any] struct {
	Number   int // from 1, counting blank lines
	Value    T
	Problems api.Problems

	last bool // nothing after it is read
}

// Read returns an iterator over the lines of r that are not blank. T must be a struct. An error of
// r ends the iteration; an invalid line does not, unless it shows that the file is in another
// encoding. If the file is wrong as a whole (see WrongFile), its only line is line 1 with that
// problem. Lines are decoded by all processors, a few batches ahead, and returned in order. Read
// reads r only while the caller waits for a line.
func Read[T any](r io.Reader) iter.Seq2[Line[T], error] {
	return func(yield func(Line[T], error) bool) {
		var decoding sync.WaitGroup
		defer decoding.Wait()
		s := source{in: bufio.NewReaderSize(r, 64<<10)}
		start, err := s.in.Peek(startSize)
		if problem := WrongFile(start, true); problem != "" && (err == nil || errors.Is(err, io.EOF)) {
			yield(Line[T]{Number: 1, Problems: api.Problems{{Message: problem}}}, nil)
			return
		}
		var ahead []*batch[T]
		for more := true; more || len(ahead) > 0; {
			for more && len(ahead) <= runtime.GOMAXPROCS(0) {
				b := &batch[T]{decoded: make(chan struct{})}
				b.texts, more = s.next()
				ahead = append(ahead, b)
				decoding.Go(b.decode)
			}
			<-ahead[0].decoded
			for _, line := range ahead[0].lines {
				if !yield(line, nil) || line.last {
					return
				}
			}
			ahead = ahead[1:]
		}
		if !errors.Is(s.err, io.EOF) {
			yield(Line[T]{Number: s.number}, s.err)
		}
	}
}

// File is the content of a file.
type File[V any] struct {
	Lines []V // the valid ones
	Rejections
}

// Add adds a valid line. It never fails.
func (f *File[V]) Add(line V) error {
	f.Lines = append(f.Lines, line)
	return nil
}

// Rejections are the invalid lines of a file.
type Rejections struct {
	Rejected []api.RejectedLine // the first rejected lines
	Omitted  int                // further rejected lines
}

// Scan reads the lines of r like Read, and passes each one that check accepts to use. check returns
// the line in the form in which it is used, the id of its record, and all its problems. Rejected
// has at most maxRejected lines. An error of r or use ends Scan.
func Scan[T, V any](r io.Reader, maxRejected int, check func(Line[T]) (V, string, api.Problems),
	use func(V) error) (all Rejections, err error) {
	for line, err := range Read[T](r) {
		if err != nil {
			return Rejections{}, err
		}
		valid, id, problems := check(line)
		switch {
		case len(problems) == 0:
			if err := use(valid); err != nil {
				return Rejections{}, err
			}
		case len(all.Rejected) < maxRejected:
			all.Rejected = append(all.Rejected, api.RejectedLine{Line: line.Number, ID: id, Problems: problems})
		default:
			all.Omitted++
		}
	}
	return all, nil
}

// batchSize is the size of a batch in bytes, without its last line.
const batchSize = 128 << 10

// batch is a number of lines that are decoded together.
type batch[T any] struct {
	texts   []text
	lines   []Line[T]
	decoded chan struct{} // closed when lines is complete
}

func (b *batch[T]) decode() {
	defer close(b.decoded)
	b.lines = make([]Line[T], len(b.texts))
	for i, t := range b.texts {
		b.lines[i].Number = t.number
		if t.tooLong {
			b.lines[i].Problems.Add("", "must have at most %d bytes", MaxLine)
		} else {
			b.lines[i].Problems, b.lines[i].last = decode(t.text, &b.lines[i].Value)
		}
	}
}

// text is a line before it is decoded.
type text struct {
	number  int
	text    []byte
	tooLong bool
}

// source splits a file into lines.
type source struct {
	in     *bufio.Reader
	number int   // of the line that was read last
	err    error // why it ended
}

// next returns the lines of the next batch that are not blank, and whether there are more.
func (s *source) next() (texts []text, more bool) {
	for size := 0; size < batchSize; {
		s.number++
		line, tooLong, err := readLine(s.in)
		if err != nil && !errors.Is(err, io.EOF) {
			s.err = err
			return texts, false
		}
		size += len(line) + 1
		if s.number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if line = bytes.TrimSpace(line); len(line) > 0 || tooLong {
			texts = append(texts, text{s.number, line, tooLong})
		}
		if err != nil {
			s.err = err
			return texts, false
		}
	}
	return texts, true
}

// readLine reads up to the next line feed. It discards lines longer than MaxLine, to limit memory
// for files without line feeds.
func readLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > MaxLine; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// Decode decodes one JSON object into out, a pointer to a struct, as strictly as Read decodes a
// line.
func Decode(text []byte, out any) api.Problems {
	p, _ := decode(text, out)
	return p
}

func decode(text []byte, out any) (p api.Problems, otherEncoding bool) {
	if !utf8.Valid(text) {
		p.Add("", "%s; nothing after this line was read", NotUTF8)
		return p, true
	}
	err := json.Unmarshal(text, out)
	if syntax := new(json.SyntaxError); errors.As(err, &syntax) { // reported before anything is decoded
		p.Add("", "must be one JSON object: %v", err)
		return p, false
	}
	c := checker{line: text, problems: &p}
	c.value(reflect.TypeOf(out).Elem(), nil)
	if err != nil && len(p) == 0 {
		p.Add("", "has a number that is too large")
	}
	return p, false
}
