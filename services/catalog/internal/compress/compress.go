// Package compress compresses response bodies whose records rarely change. A body is a sequence of parts and a tail. Parts are kept
// compressed, by what is in them, so a page costs little again when other records change, move it by a record, or are asked for in
// pages of another size. The tail holds what differs between responses, such as their time, and is stored without compression.
//
// A gzip body is one member: the parts are deflate blocks that end at a byte boundary, the tail is the final stored block, and the
// checksum of the whole is combined from those of the parts. A zstd body is one frame, which many decoders require. The blocks of a
// frame depend on those before, so it has one part; its tail is the final raw block.
package compress

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// Coding is a content coding (RFC 9110, section 8.4.1).
type Coding string

const (
	Identity Coding = "" // no compression
	Gzip     Coding = "gzip"
	Zstd     Coding = "zstd"
)

// Negotiate returns the coding that the values of Accept-Encoding prefer. Of codings with the same weight it prefers gzip: its lists are built
// from more parts that are shared, and zstd makes them hardly smaller.
func Negotiate(accept []string) Coding {
	var gzip, zstd, identity float64
	for _, values := range accept {
		for value := range strings.SplitSeq(values, ",") {
			name, parameters, _ := strings.Cut(value, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "gzip":
				gzip = quality(parameters)
			case "zstd":
				zstd = quality(parameters)
			case "identity":
				identity = quality(parameters)
			}
		}
	}
	switch best := max(gzip, zstd); {
	case best == 0 || best < identity:
		return Identity
	case best == gzip:
		return Gzip
	}
	return Zstd
}

// quality returns the weight of a parameter such as "q=0.5", and 0 if it is malformed.
func quality(parameters string) float64 {
	name, value, ok := strings.Cut(strings.TrimSpace(parameters), "=")
	if !ok {
		return 1
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !strings.EqualFold(strings.TrimSpace(name), "q") || math.IsNaN(q) || q < 0 || q > 1 {
		return 0
	}
	return q
}

// Part is a part of a body.
type Part interface {
	// Append appends the text of the part to buf.
	Append(buf []byte) []byte
	// AppendVersion appends bytes to buf that differ for parts with different texts.
	AppendVersion(buf []byte) []byte
}

// MaxTail is the maximum length of a tail: that of a stored deflate block.
const MaxTail = math.MaxUint16

// The start of every gzip body (RFC 1952: deflate, no name, no time), and the flag of a final deflate block that is stored.
const (
	gzipHeader  = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	storedFinal = 1
)

// Append appends the compressed body of the parts and the tail to buf. The parts come from the cache where it has them. The coding is Gzip,
// or Zstd with exactly one part. The tail has at most MaxTail bytes.
func (c *Cache) Append(buf []byte, coding Coding, parts []Part, tail []byte) []byte {
	if coding == Zstd {
		buf = append(buf, c.part(coding, zstdFastest, parts[0]).compressed...)
		header := uint32(len(tail))<<3 | 1 //nolint:gosec // MaxTail: size, type 0 (raw), last block
		return append(binary.LittleEndian.AppendUint32(buf, header)[:len(buf)+3], tail...)
	}
	buf = append(buf, gzipHeader...)
	var sum, size uint32
	for i, p := range parts {
		with := gzip
		if len(parts) > 2 && (i == 0 || i == len(parts)-1) {
			with = gzipFast // the ends of a page are parts of that page alone
		}
		p := c.part(coding, with, p)
		buf = append(buf, p.compressed...)
		sum, size = p.shift.apply(sum)^p.sum, size+p.size
	}
	n := uint16(len(tail)) //nolint:gosec // MaxTail
	buf = append(buf, storedFinal)
	buf = binary.LittleEndian.AppendUint16(buf, n)
	buf = binary.LittleEndian.AppendUint16(buf, ^n)
	buf = append(buf, tail...)
	buf = binary.LittleEndian.AppendUint32(buf, crc32.Update(sum, crc32.IEEETable, tail))
	return binary.LittleEndian.AppendUint32(buf, size+uint32(n))
}

// compressed is a part in one coding.
type compressed struct {
	compressed []byte
	sum, size  uint32 // CRC-32 and length of the text
	shift      shift  // by the length of the text
}

// key identifies the text of a part in one coding.
type key [sha256.Size]byte

// versions are buffers for the version of a part. On the stack it would escape, and be most of the garbage of a list.
var versions = sync.Pool{New: func() any { return new([]byte) }}

func keyOf(coding Coding, p Part) key {
	buf := versions.Get().(*[]byte)
	defer versions.Put(buf)
	*buf = p.AppendVersion(append((*buf)[:0], coding...))
	return sha256.Sum256(*buf)
}

// part returns a part in the coding. It compresses the part with a library for that coding unless the cache has it.
func (c *Cache) part(coding Coding, with library, p Part) *compressed {
	return c.get(keyOf(coding, p), func() *compressed { return with.compress(p) })
}

// Levels of gzip. Compared with level, parts are 10 % larger with fastLevel, and 3 % smaller with aheadLevel, for three times the CPU time.
const (
	level      = 6
	fastLevel  = 1
	aheadLevel = 8
)

// zstdWindow is the distance over which zstd finds repetitions, more than a usual page.
const zstdWindow = 512 << 10

// writer is the part of a compression library that an encoder uses. Flush ends a block at a byte boundary; nothing ends the stream.
type writer interface {
	io.Writer
	Flush() error
	Reset(io.Writer)
}

// library makes encoders, and keeps the idle ones: a sync.Pool would lose their memory, about 1 MiB each, with every garbage collection.
type library struct {
	open func() (writer, error)
	idle chan *encoder
}

// encoder compresses one part at a time.
type encoder struct {
	to   writer
	text []byte
	out  bytes.Buffer
}

// maxIdle is the number of idle encoders of a coding that are kept.
const maxIdle = 4

var (
	gzip        = library{gzipWriter(level), make(chan *encoder, maxIdle)}
	gzipFast    = library{gzipWriter(fastLevel), make(chan *encoder, maxIdle)}
	gzipAhead   = library{gzipWriter(aheadLevel), make(chan *encoder, 1)} // one goroutine uses it
	zstdFastest = library{func() (writer, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false), zstd.WithWindowSize(zstdWindow))
	}, make(chan *encoder, maxIdle)}
)

func gzipWriter(level int) func() (writer, error) {
	return func() (writer, error) { return flate.NewWriter(nil, level) }
}

func (l library) compress(p Part) *compressed {
	var e *encoder
	select {
	case e = <-l.idle:
	default:
		e = &encoder{to: must(l.open())}
	}
	defer func() {
		select {
		case l.idle <- e:
		default:
		}
	}()
	e.out.Reset()
	e.to.Reset(&e.out)
	e.text = p.Append(e.text[:0])
	must(e.to.Write(e.text))
	must(0, e.to.Flush())
	n := len(e.text)
	return &compressed{
		bytes.Clone(e.out.Bytes()), crc32.ChecksumIEEE(e.text), uint32(n), //nolint:gosec // gzip stores the length modulo 2^32
		newShift(n),
	}
}

// must returns v. The only errors of the encoders are invalid settings, and those of the writer behind them, which is memory.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
