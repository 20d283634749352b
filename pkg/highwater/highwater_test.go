package highwater

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func newKey(t testing.TB, secrets ...string) Key {
	t.Helper()
	k, err := NewKey("test", secrets...)
	require.NoError(t, err)
	return k
}

func at(sequence int64, id string) Mark { return Mark{Change: api.Change{Sequence: sequence, ID: id}} }

func TestMarkIsReadUnderEveryCurrentSecret(t *testing.T) {
	before, rotated, retired := newKey(t, "old"), newKey(t, "new", "old"), newKey(t, "new")
	for _, m := range []Mark{at(7, "0193c1d2-7f00-7000-8000-000000000000"), {Change: api.Change{Sequence: MaxSequence, ID: "A"}, Checkpoint: "two\nlines\n"}} {
		text := before.Encode(m)
		got, err := rotated.Decode(text)
		require.NoError(t, err)
		require.Equal(t, m, got)
		_, err = retired.Decode(text)
		require.ErrorIs(t, err, ErrForged)
		_, err = before.Decode(rotated.Encode(m))
		require.ErrorIs(t, err, ErrForged)
	}
	require.Empty(t, before.Encode(Mark{}))
	_, err := NewKey("test")
	require.ErrorContains(t, err, "no secret")
}

// A program with write access to a keeper cannot make a mark, and no mark leaves no room for further changes.
func TestForgedMarkIsRejected(t *testing.T) {
	k := newKey(t, "secret")
	genuine := k.Encode(at(7, "a"))
	other, err := NewKey("other", "secret")
	require.NoError(t, err)
	for _, text := range []string{
		"", "7.a", "9223372036854775807.x", strings.Replace(genuine, "7.a", "8.a", 1), strings.Replace(genuine, "7.a", "7.b", 1), genuine + "A", genuine[1:],
		other.Encode(at(7, "a")), k.Encode(at(MaxSequence+1, "a")), k.Encode(at(-1, "a")), k.Encode(at(7, "a.b")), `{"mark":{"sequence":7,"id":"a"}}`,
	} {
		_, err := k.Decode(text)
		require.ErrorIs(t, err, ErrForged, text)
	}
}

// A database that was restored twice to the first generation begins two second ones.
func TestGenerationsOfDifferentLossesDiffer(t *testing.T) {
	lost := func(sequence, generation, acceptedAt int64) Loss {
		return Loss{Kind: Change, Number: sequence, ID: "a", Generation: generation, AcceptedAt: acceptedAt}
	}
	require.Equal(t, Generation{Number: 1}, GenerationOf([]Loss{lost(7, 0, 0)}))
	first, again, later := GenerationOf([]Loss{lost(7, 2, 1)}), GenerationOf([]Loss{lost(9, 2, 1)}), GenerationOf([]Loss{lost(7, 2, 2)})
	require.EqualValues(t, 2, first.Number)
	require.Len(t, first.ID, 16)
	require.NotEqual(t, first.ID, again.ID)
	require.NotEqual(t, first.ID, later.ID)
	require.Equal(t, first, GenerationOf([]Loss{lost(8, 0, 0), lost(7, 2, 1)}), "an open loss changes nothing")
	third := GenerationOf([]Loss{lost(7, 2, 1), lost(9, 3, 5)})
	require.EqualValues(t, 3, third.Number)
	require.NotEqual(t, first.ID, third.ID)
}
