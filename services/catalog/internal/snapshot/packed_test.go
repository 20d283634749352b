package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// value draws a JSON value with strings and names that have quotes, backslashes and digits.
func value(t *rapid.T, depth int) any {
	text := rapid.StringOf(rapid.RuneFrom([]rune(`ab"\:,-09{}[]é`)))
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0 && depth > 0:
		return map[string]any{text.Draw(t, "name"): value(t, depth-1), "a name that is longer": value(t, depth-1)}
	case kind == 1 && depth > 0:
		return []any{value(t, depth-1), value(t, depth-1)}
	case kind == 2:
		return rapid.Float64Range(-1e6, 1e6).Draw(t, "number")
	case kind == 3:
		return rapid.Bool().Draw(t, "boolean")
	case kind == 4:
		return nil
	}
	return text.Draw(t, "text")
}

func TestPackedTextIsTheText(t *testing.T) {
	var p packer
	rapid.Check(t, func(t *rapid.T) {
		first, second := map[string]any{"first": value(t, 4)}, map[string]any{"second": value(t, 4)}
		text, err := json.Marshal([]any{first, map[string]any{"inserted": ""}, second})
		require.NoError(t, err)
		at := bytes.LastIndex(text, []byte(`"inserted":"`)) + len(`"inserted":"`)
		end := uint32(at)
		packed := p.pack(text, &end)
		require.Equal(t, string(text[:at]), string(packed[:end].append(nil)))
		require.Equal(t, string(text[at:]), string(packed[end:].append(nil)))
	})
}

func TestPackedLiteralsOfAnyLength(t *testing.T) {
	var p packer
	for _, n := range []int{0, 1, math.MaxUint16 - 1, math.MaxUint16, math.MaxUint16 + 1, 3 * math.MaxUint16} {
		text := `{"a long enough name":"` + strings.Repeat("x", n) + `","another long name":1}`
		require.Equal(t, text, string(p.pack([]byte(text)).append(nil)), n)
	}
}

func TestRepeatedPhrasesAreStoredOnce(t *testing.T) {
	var p packer
	var size, textSize int
	for i := range 100 {
		text := fmt.Appendf(nil, `{"name of the organization":"o%d","number of the registration":%d,"languages of the form":["en","fr"]}`, i, i)
		size, textSize = size+len(p.pack(text)), textSize+len(text)
	}
	require.Less(t, size, textSize/2)
}

func TestPhrasesAreBounded(t *testing.T) {
	d := newDictionary()
	for i := range maxPhrases + 10 {
		phrase := fmt.Sprint("phrase ", i)
		number := d.number([]byte(phrase))
		require.Equal(t, number, d.number([]byte(phrase)))
		if i < maxPhrases-1 {
			require.Equal(t, phrase, (*d.texts.Load())[number])
		} else {
			require.Zero(t, number)
		}
	}
	require.Len(t, *d.texts.Load(), maxPhrases)
}
