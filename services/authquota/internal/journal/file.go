package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// File is a journal in a file, which one process writes. It opens the file for each write, so the file can be renamed at any time.
type File struct {
	path string
	mu   sync.Mutex
	last Line // the newest
}

// tail is the length of the end of a file in which OpenFile looks for the newest line.
const tail = 1 << 20

// OpenFile opens the journal at an absolute path and creates the file if it is missing. Last ignores lines that are not genuine.
func OpenFile(path string, genuine func(Line) bool) (*File, error) {
	j := &File{path: path}
	f, err := j.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		_, _ = f.Seek(-tail, io.SeekEnd) // otherwise all of it is read
	}
	err = Read(f, func(l Line) error {
		if genuine(l) {
			j.see(l)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return j, errors.Join(directory.Sync(), directory.Close()) // so that a new file survives a power failure
}

func (j *File) open() (*os.File, error) {
	return os.OpenFile(j.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}

// Write appends a line and returns once it is on the disk.
func (j *File) Write(l Line) (err error) {
	text, err := l.Encode()
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	f, err := j.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if complete, err := endsLine(f); err != nil {
		return err
	} else if !complete {
		text = append([]byte{'\n'}, text...) // after a crash or a full disk
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	j.see(l)
	return nil
}

func (j *File) see(l Line) {
	if l.Sequence >= j.last.Sequence {
		j.last = l
	}
}

// Last returns the newest line in the file, or the zero Line.
func (j *File) Last() Line {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

func endsLine(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return true, err
	}
	end := make([]byte, 1)
	_, err = f.ReadAt(end, info.Size()-1)
	return end[0] == '\n', err
}

// Stream is a journal that is written to a stream, such as standard output, which someone else collects.
type Stream struct {
	out io.Writer
	mu  sync.Mutex
}

// NewStream returns a Stream.
func NewStream(out io.Writer) *Stream { return &Stream{out: out} }

// Write writes a line.
func (s *Stream) Write(l Line) error {
	text, err := l.Encode()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.out.Write(text)
	return err
}
