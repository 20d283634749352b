package snapshot

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
)

// packed is the JSON of a record in less memory. Most of it is the same in many records: the text between two values, such as
// `","website":"`. So packed is a sequence of tokens: the number of a phrase, the length of a literal, and the literal. Both numbers have two
// bytes.
type packed []byte

// tokenSize is the size of the two numbers of a token.
const tokenSize = 4

// minPhrase is the least length of a phrase. Replacing shorter ones costs time and saves little.
const minPhrase = 8

// maxPhrases bounds the memory of phrases. Records that are packed once there are so many have their text as literals.
const maxPhrases = math.MaxUint16

// phrases are the phrases of all records. They stay, because records of any age use them.
var phrases = newDictionary()

// dictionary numbers phrases. Phrase 0 is empty. It is safe for concurrent use.
type dictionary struct {
	mu    sync.RWMutex
	ids   map[string]uint16
	texts atomic.Pointer[[]string]
}

func newDictionary() *dictionary {
	d := &dictionary{ids: map[string]uint16{"": 0}}
	d.texts.Store(&[]string{""})
	return d
}

// number returns the number of a phrase, and 0 if there are too many phrases.
func (d *dictionary) number(phrase []byte) uint16 {
	d.mu.RLock()
	id, known := d.ids[string(phrase)]
	d.mu.RUnlock()
	if known {
		return id
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if id, known := d.ids[string(phrase)]; known {
		return id
	}
	texts := *d.texts.Load()
	if len(texts) == maxPhrases {
		return 0
	}
	text := string(phrase)
	d.ids[text] = uint16(len(texts)) //nolint:gosec // below maxPhrases
	texts = append(texts, text)      // readers of the old slice do not see the new element
	d.texts.Store(&texts)
	return d.ids[text]
}

// append appends the text of p to buf.
func (p packed) append(buf []byte) []byte {
	texts := *phrases.texts.Load()
	for len(p) >= tokenSize {
		id, n := binary.LittleEndian.Uint16(p), int(binary.LittleEndian.Uint16(p[2:]))
		buf = append(buf, texts[id]...)
		buf = append(buf, p[tokenSize:tokenSize+n]...)
		p = p[tokenSize+n:]
	}
	return buf
}

// packer packs texts. It reuses its buffers and is not safe for concurrent use.
type packer struct {
	out     packed
	phrase  uint16
	literal []byte
}

// pack packs a JSON text in pieces that end at the offsets: the starts of empty strings, ascending. It replaces the offsets by those in the
// result, which is valid until the next call.
func (p *packer) pack(text []byte, ends ...*uint32) packed {
	p.out, p.literal, p.phrase = p.out[:0], p.literal[:0], 0
	from := 0 // of the phrase
	for at := 0; at < len(text); {
		end := valueAt(text, &at)
		p.add(text[from:at], text[at:end])
		from, at = end, end
		for len(ends) > 0 && int(*ends[0]) <= at {
			p.flush()
			*ends[0] = uint32(len(p.out)) //nolint:gosec // a record is at most a few MiB
			ends = ends[1:]
		}
	}
	p.flush()
	return p.out
}

// add adds a phrase and a literal.
func (p *packer) add(phrase, literal []byte) {
	var id uint16
	if len(phrase) >= minPhrase {
		id = phrases.number(phrase)
	}
	if id != 0 {
		p.flush()
		p.phrase = id
	} else {
		p.literal = append(p.literal, phrase...)
	}
	p.literal = append(p.literal, literal...)
}

// flush appends the token of the phrase and the literal, and more tokens if the literal is too long for one.
func (p *packer) flush() {
	literal := p.literal
	for p.phrase != 0 || len(literal) > 0 {
		n := min(len(literal), math.MaxUint16)
		p.out = binary.LittleEndian.AppendUint16(p.out, p.phrase)
		p.out = binary.LittleEndian.AppendUint16(p.out, uint16(n)) //nolint:gosec // as limited
		p.out = append(p.out, literal[:n]...)
		p.phrase, literal = 0, literal[n:]
	}
	p.literal = p.literal[:0]
}

// valueAt advances at to the next string or number that is a value and not the name of a member, without its quotes, and returns its end.
func valueAt(text []byte, at *int) (end int) {
	i := *at
	if i > 0 && text[i] == '"' { // the end of the value before
		i++
	}
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '-' || '0' <= c && c <= '9':
			*at = i
			for i < len(text) && text[i] != ',' && text[i] != '}' && text[i] != ']' {
				i++
			}
			return i
		case c == '"':
			closing := i + 1
			for closing < len(text) && text[closing] != '"' {
				if text[closing] == '\\' {
					closing++
				}
				closing++
			}
			if closing+1 < len(text) && text[closing+1] == ':' {
				i = closing
				continue
			}
			*at = i + 1
			return min(closing, len(text))
		}
	}
	*at = len(text)
	return len(text)
}
