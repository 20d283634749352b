package cosignature_test

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"opportunity.internal/pkg/cosignature"
)

const text = "log.example\n1\nBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\n"

var (
	at  = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	key = ed25519.NewKeyFromSeed([]byte(strings.Repeat("w", ed25519.SeedSize)))
)

func TestCosignatureHasItsTime(t *testing.T) {
	signer, err := cosignature.NewSigner("witness.example", key, func() time.Time { return at })
	require.NoError(t, err)
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	require.NoError(t, err)
	opened, err := note.Open(signed, note.VerifierList(signer))
	require.NoError(t, err)
	seen, err := cosignature.Time(opened.Sigs[0])
	require.NoError(t, err)
	require.Equal(t, at, seen)

	signature, err := signer.Sign([]byte(text))
	require.NoError(t, err)
	for i := range signature {
		signature[i] ^= 1
		require.False(t, signer.Verify([]byte(text), signature), "byte %d", i)
		signature[i] ^= 1
	}
	require.False(t, signer.Verify([]byte(text), signature[1:]))
	early, err := cosignature.NewSigner("witness.example", key, func() time.Time { return time.Unix(-1, 0) })
	require.NoError(t, err)
	_, err = early.Sign([]byte(text))
	require.Error(t, err)
}

func FuzzNewVerifier(f *testing.F) {
	f.Add(cosignature.PublicKey("witness.example", key.Public().(ed25519.PublicKey)))
	f.Add("witness.example+00000000+BA==")
	f.Fuzz(func(t *testing.T, public string) {
		if v, err := cosignature.NewVerifier(public); err == nil {
			require.True(t, strings.HasPrefix(public, v.Name()+"+"))
			require.False(t, v.Verify([]byte(text), nil))
		}
	})
}
