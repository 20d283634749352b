package checkpoint_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"opportunity.internal/services/history/internal/checkpoint"
)

var seeds = []string{strings.Repeat("01", 32), strings.Repeat("02", 32)}

func keys(t testing.TB, seeds, retired []string) checkpoint.Keys {
	t.Helper()
	k, err := checkpoint.ParseKeys(seeds, retired)
	require.NoError(t, err)
	return k
}

var example = checkpoint.Checkpoint{
	Number: 17, Time: time.Date(2026, 11, 20, 0, 0, 0, 214_511_000, time.UTC), Size: 1284, Root: bytes.Repeat([]byte{7}, 32), Chains: 96,
	Heads: strings.Repeat("ab", 32), Previous: strings.Repeat("cd", 32), Generation: 1,
}

// The layout never changes: consumers verify it with nothing but the documented format and the public key.
func TestSignedTextMatchesDocumentedLayout(t *testing.T) {
	k := keys(t, seeds[:1], nil)
	signed, err := k.Sign(example)
	require.NoError(t, err)
	text, signature, ok := strings.Cut(signed, "\n\n")
	require.True(t, ok)
	text += "\n"
	require.Equal(t, "opportunity-history\n1284\nBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\nnumber 17\ntime 2026-11-20T00:00:00.214511Z\nchains 96\n"+
		"heads "+example.Heads+"\nprevious "+example.Previous+"\n", text)

	name, rest, _ := strings.Cut(k.Public()[0], "+")
	id, encoded, _ := strings.Cut(rest, "+")
	require.Equal(t, "opportunity-history", name)
	public, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(t, err)
	require.Equal(t, byte(1), public[0])
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(strings.TrimPrefix(signature, "— opportunity-history "), "\n"))
	require.NoError(t, err)
	require.Equal(t, id, hex.EncodeToString(raw[:4]))
	require.True(t, ed25519.Verify(public[1:], []byte(text), raw[4:]))

	again, err := k.Open(signed)
	require.NoError(t, err)
	require.Equal(t, example, again)
	first := example
	first.Previous = ""
	signed, err = k.Sign(first)
	require.NoError(t, err)
	require.Contains(t, signed, "previous none\n")
	again, err = k.Open(signed)
	require.NoError(t, err)
	require.Equal(t, first, again)
}

// The first generation has no line, so that its checkpoints have the same text as before there were generations.
func TestSignedTextNamesLaterGenerations(t *testing.T) {
	k := keys(t, seeds[:1], nil)
	second := example
	second.Generation = 2
	signed, err := k.Sign(second)
	require.NoError(t, err)
	require.Contains(t, signed, "previous "+example.Previous+"\ngeneration 2\n\n", "as an older release signed it")
	again, err := k.Open(signed)
	require.NoError(t, err)
	require.Equal(t, second, again)
	second.Loss = "0123456789abcdef"
	withLoss, err := k.Sign(second)
	require.NoError(t, err)
	require.Contains(t, withLoss, "\ngeneration 2\nloss 0123456789abcdef\n\n")
	again, err = k.Open(withLoss)
	require.NoError(t, err)
	require.Equal(t, second, again)
	for _, line := range []string{"generation 1", "generation 02", "generation -2", "era 2", "", "generation 2\nloss ", "generation 2\nera a", "generation 2\nloss a\nloss a"} {
		text, _, _ := strings.Cut(signed, "\n\n")
		forged, err := note.Sign(&note.Note{Text: strings.Replace(text, "generation 2", line, 1) + "\n"}, signer(t, k))
		require.NoError(t, err)
		_, err = k.Open(string(forged))
		require.ErrorContains(t, err, "not a checkpoint", line)
	}
}

func TestAlteredTextOrUnknownKeyIsRejected(t *testing.T) {
	k := keys(t, seeds[:1], nil)
	signed, err := k.Sign(example)
	require.NoError(t, err)
	for i := range signed {
		if signed[i] == 'x' {
			continue
		}
		_, err := k.Open(signed[:i] + "x" + signed[i+1:])
		require.Error(t, err, "byte %d changed", i)
		_, err = k.Open(signed[:i])
		require.Error(t, err, "cut at %d", i)
	}
	_, err = keys(t, seeds[1:], nil).Open(signed)
	require.ErrorContains(t, err, "no key of this history signed it")
}

// signer returns the signer with the first seed, for any text.
func signer(t *testing.T, k checkpoint.Keys) note.Signer {
	t.Helper()
	hash := strings.Split(k.Public()[0], "+")[1]
	secret := append([]byte{1}, bytes.Repeat([]byte{1}, ed25519.SeedSize)...)
	s, err := note.NewSigner("PRIVATE+KEY+" + checkpoint.Origin + "+" + hash + "+" + base64.StdEncoding.EncodeToString(secret))
	require.NoError(t, err)
	return s
}

// A checkpoint has exactly one encoding: a valid signature does not make another one acceptable.
func TestOnlyCanonicalTextIsAccepted(t *testing.T) {
	k := keys(t, seeds[:1], nil)
	signer := signer(t, k)
	signed, err := k.Sign(example)
	require.NoError(t, err)
	text, _, _ := strings.Cut(signed, "\n\n")
	for old, changed := range map[string]string{
		"\n1284\n":         "\n18446744073709551615\n",
		"number 17":        "number 017",
		"214511Z":          "214511+00:00",
		"chains 96":        "chains x",
		"chains 96\nheads": "heads",
		"previous cd":      "next cd",
	} {
		require.Contains(t, text, old)
		altered, err := note.Sign(&note.Note{Text: strings.Replace(text, old, changed, 1) + "\n"}, signer)
		require.NoError(t, err)
		_, err = k.Open(string(altered))
		require.Error(t, err, changed)
	}
	empty, err := note.Sign(&note.Note{Text: strings.Replace(text, "\n1284\n", "\n0\n", 1) + "\n"}, signer)
	require.NoError(t, err)
	c, err := k.Open(string(empty))
	require.NoError(t, err)
	require.Zero(t, c.Size)
}

func TestTextWithAMissingLineIsRejected(t *testing.T) {
	k := keys(t, seeds[:1], nil)
	signed, err := k.Sign(example)
	require.NoError(t, err)
	text, _, _ := strings.Cut(signed, "\n\n")
	lines := strings.SplitAfter(text+"\n", "\n")
	for n := range len(lines) - 1 {
		short, err := note.Sign(&note.Note{Text: strings.Join(lines[:n+1], "")}, signer(t, k))
		require.NoError(t, err)
		_, err = k.Open(string(short))
		require.Equal(t, n+1 < len(lines)-1, err != nil, "the first %d lines", n+1)
	}
}

func TestIDOfAMissingCheckpointIsEmpty(t *testing.T) {
	require.Empty(t, checkpoint.Stored{}.ID())
	require.Equal(t, checkpoint.ID("note"), checkpoint.Stored{Note: "note"}.ID())
}

func TestRotatedKeysStayTrusted(t *testing.T) {
	old := keys(t, seeds[:1], nil)
	signed, err := old.Sign(example)
	require.NoError(t, err)
	both := keys(t, []string{seeds[1], seeds[0]}, nil)
	after := keys(t, seeds[1:], old.Public())
	for _, k := range []checkpoint.Keys{both, after} {
		_, err = k.Open(signed)
		require.NoError(t, err)
		newer, err := k.Sign(example)
		require.NoError(t, err)
		_, err = old.Open(newer)
		require.Error(t, err, "the newest key signs")
		require.Len(t, k.Public(), 2)
	}
	only := keys(t, nil, old.Public())
	require.False(t, only.Signs())
	_, err = only.Open(signed)
	require.NoError(t, err)
}

func TestErrorsOfInvalidKeysContainNoSeed(t *testing.T) {
	for _, seed := range []string{"", "0102", strings.Repeat("zz", 32), strings.Repeat("01", 33)} {
		_, err := checkpoint.ParseKeys([]string{seed}, nil)
		require.ErrorContains(t, err, "32 bytes in hexadecimal")
		require.True(t, seed == "" || !strings.Contains(err.Error(), seed))
	}
	for _, public := range []string{"", "x", "other+0badc0de+AQ==", strings.Replace(keys(t, seeds[:1], nil).Public()[0], "opportunity", "x", 1)} {
		_, err := checkpoint.ParseKeys(nil, []string{public})
		require.ErrorContains(t, err, "is not a public key")
	}
	require.ErrorContains(t, checkpoint.Config{PublicKeys: []string{"x"}}.Validate(), "OPPORTUNITY_HISTORY_PUBLIC_KEYS")
	require.NoError(t, checkpoint.Config{SigningKeys: seeds}.Validate())
}

func TestTreesGrowWithProof(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		grown, err := checkpoint.NewTree(0, nil)
		require.NoError(t, err)
		whole, err := checkpoint.NewTree(0, nil)
		require.NoError(t, err)
		var before checkpoint.Checkpoint
		n := 0
		for range rapid.IntRange(1, 6).Draw(r, "checkpoints") {
			var leaves [][]byte
			for range rapid.IntRange(0, 40).Draw(r, "leaves") {
				leaves = append(leaves, checkpoint.LeafHash(fmt.Append(nil, n)))
				n++
			}
			require.NoError(t, whole.Grow(leaves...))
			consistency, err := grown.GrowWithProof(leaves)
			require.NoError(t, err)
			root, err := grown.Root()
			require.NoError(t, err)
			same, err := whole.Root()
			require.NoError(t, err)
			require.Equal(t, same, root)
			after := checkpoint.Checkpoint{Size: grown.Size(), Root: root}
			require.NoError(t, after.Extends(before, consistency))
			if before.Size > 0 {
				other := before
				other.Root = checkpoint.LeafHash([]byte("other"))
				require.Error(t, after.Extends(other, consistency))
				if after.Size > before.Size {
					require.Error(t, before.Extends(after, consistency))
				}
			}
			before = after
			grown, err = checkpoint.NewTree(grown.Size(), grown.Frontier()) // as for the next checkpoint
			require.NoError(t, err)
		}
	})
	empty, err := checkpoint.NewTree(0, nil)
	require.NoError(t, err)
	root, err := empty.Root()
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%x", sha256.Sum256(nil)), hex.EncodeToString(root))
	_, err = checkpoint.NewTree(3, nil)
	require.Error(t, err)
}

func TestHeadsHashCoversPublishedHeads(t *testing.T) {
	heads := []checkpoint.Head{{Chain: "b", Slug: "private", Events: 2, Hash: "y"}, {Chain: "a", Slug: "z", Events: 10, Hash: "x"}}
	var out strings.Builder
	require.NoError(t, checkpoint.WriteHeads(&out, heads))
	require.Equal(t, "a 10 x\nb 2 y\n", out.String())
	require.Equal(t, checkpoint.ID(out.String()), checkpoint.HeadsHash(heads))
	require.Equal(t, checkpoint.ID(""), checkpoint.HeadsHash(nil))
}

func TestPublishedDocument(t *testing.T) {
	k := keys(t, seeds[:1], nil)
	text, err := json.Marshal(checkpoint.Stored{Checkpoint: example, Before: 16, Note: "note"}.Publish("https://api.example", k, "api.example/opportunity-history"))
	require.NoError(t, err)
	require.JSONEq(t, `{"checkpoint":"note","id":"`+checkpoint.ID("note")+`","number":17,"time":"2026-11-20T00:00:00.214511Z","events":1284,"chains":96,
		"rootHash":"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=","consistency":[],"publicKeys":["`+k.Public()[0]+`"],
		"self":"https://api.example/.well-known/opportunity-history/17","previous":"https://api.example/.well-known/opportunity-history/16","generation":1,
		"heads":"https://api.example/.well-known/opportunity-history/17.heads",
		"log":{"origin":"api.example/opportunity-history","publicKeys":["`+k.PublicAs("api.example/opportunity-history")[0]+`"],
		"checkpoint":"https://api.example/.well-known/opportunity-history/log/checkpoint"},"documentation":"https://api.example/docs/provable-history"}`, string(text))
	require.Nil(t, checkpoint.Stored{Checkpoint: example}.Publish("https://api.example", k, "").Previous)
}

func FuzzOpen(f *testing.F) {
	k := keys(f, seeds[:1], nil)
	signed, err := k.Sign(example)
	require.NoError(f, err)
	f.Add(signed)
	f.Add("opportunity-history\n1\n\n\n— x y\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := k.Open(text); err == nil {
			require.Equal(t, example, c)
		}
	})
}
