package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gowebpki/jcs"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// proofCase is a case of conformance/proofs/cases.json: what verifying the proof of an event must return, or the reason of its error.
type proofCase struct {
	Name  string          `json:"name"`
	Event json.RawMessage `json:"event"`
	Proof string          `json:"proof"`
	// Times that the last line of the proof is repeated.
	Repeat int       `json:"repeat,omitempty"`
	Keys   proofKeys `json:"keys"`
	Want   proofWant `json:"want"`
}

type proofKeys struct {
	Log       []string `json:"log"`
	Witnesses []string `json:"witnesses,omitempty"`
	Quorum    int      `json:"quorum,omitempty"`
}

type proofWant struct {
	Reason     string      `json:"reason,omitempty"`
	Origin     string      `json:"origin,omitempty"`
	Size       int64       `json:"size,omitempty"`
	Index      int64       `json:"index,omitempty"`
	RecordedAt string      `json:"recordedAt,omitempty"`
	Witnesses  []proofSeen `json:"witnesses,omitempty"`
}

type proofSeen struct {
	Name string `json:"name"`
	At   string `json:"at"`
}

const (
	proofOrigin = "api.example/opportunity-history"
	proofTime   = "2026-11-20T09:30:00.123456Z"
	seenAt      = 1795167060 // 2026-11-20T09:31:00Z

	// An event with texts that a canonical form must write in one way.
	proofEvent = `{"checkType":"review","checkedAt":"2026-11-20T09:00:00.12Z","facts":{"applicationStatus":"open","languages":["fr"],` +
		`"pay":{"max":1e+21,"min":0.000001},"remote":true},"id":"0198f000-0000-7000-8000-000000000001","note":"Première <visite> & \"ok\"` + "\u2028" +
		`\u0007\n😀","outcome":"verified","slug":"odin-works","sourceUrls":["https://odin.example/a?b=1&c=2"],"😀":2,"` + "\ue000" + `":1}`
)

// proofLog is a log with the event at an index.
type proofLog struct {
	size, index int64
	path        []string
	root        tlog.Hash
}

func newProofLog(size, index int64, event, private, recordedAt string) proofLog {
	var hashes []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, i := range indexes {
			out = append(out, hashes[i])
		}
		return out, nil
	})
	for i := range size {
		entry := fmt.Sprintf("entry %d", i)
		if i == index {
			entry = string(entryOf(event, private, recordedAt))
		}
		added, err := tlog.StoredHashes(i, []byte(entry), read)
		must(err)
		hashes = append(hashes, added...)
	}
	root, err := tlog.TreeHash(size, read)
	must(err)
	proof, err := tlog.ProveRecord(size, index, read)
	must(err)
	l := proofLog{size: size, index: index, root: root}
	for _, h := range proof {
		l.path = append(l.path, h.String())
	}
	return l
}

// entryOf returns the canonical entry of an event.
func entryOf(event, private, recordedAt string) []byte {
	entry, err := jcs.Transform([]byte(`{"event":` + event + `,"private":"` + private + `","recordedAt":"` + recordedAt + `"}`))
	must(err)
	return entry
}

// newDeepLog returns a log of 2^levels entries with the event at an odd index, without building it: every other subtree has the hash of its level.
func newDeepLog(levels int, event, private, recordedAt string) proofLog {
	l := proofLog{size: 1 << levels, index: 1<<levels/3 | 1, root: tlog.RecordHash(entryOf(event, private, recordedAt))}
	for level := range levels {
		sibling := tlog.RecordHash([]byte{byte(level)})
		l.path = append(l.path, sibling.String())
		if l.index>>level&1 == 1 {
			l.root = tlog.NodeHash(sibling, l.root)
		} else {
			l.root = tlog.NodeHash(l.root, sibling)
		}
	}
	return l
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (l proofLog) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", proofOrigin, l.size, l.root)
}

// proof returns the proof with a checkpoint.
func (l proofLog) proof(extra, checkpoint string) string {
	lines := append([]string{"c2sp.org/tlog-proof@v1", "extra " + base64.StdEncoding.EncodeToString([]byte(extra)), fmt.Sprintf("index %d", l.index)}, l.path...)
	return strings.Join(lines, "\n") + "\n\n" + checkpoint
}

type proofKey struct {
	name string
	kind byte
	key  ed25519.PrivateKey
}

func newProofKey(name string, kind byte, seed string) proofKey {
	return proofKey{name, kind, ed25519.NewKeyFromSeed(bytes.Repeat([]byte(seed), ed25519.SeedSize))}
}

func (k proofKey) id() []byte {
	sum := sha256.Sum256(append(append([]byte(k.name+"\n"), k.kind), k.key.Public().(ed25519.PublicKey)...))
	return sum[:4]
}

func (k proofKey) public() string {
	data := append([]byte{k.kind}, k.key.Public().(ed25519.PublicKey)...)
	return fmt.Sprintf("%s+%x+%s", k.name, k.id(), base64.StdEncoding.EncodeToString(data))
}

// line returns the signature line of a text.
func (k proofKey) line(text string) string {
	if k.kind == 4 {
		return k.lineAt(text, seenAt)
	}
	return k.lineOf(ed25519.Sign(k.key, []byte(text)))
}

// lineAt returns the line of a cosignature at a time.
func (k proofKey) lineAt(text string, seconds uint64) string {
	signature := ed25519.Sign(k.key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text))
	return k.lineOf(append(binary.BigEndian.AppendUint64(nil, seconds), signature...))
}

func (k proofKey) lineOf(signature []byte) string {
	return "— " + k.name + " " + base64.StdEncoding.EncodeToString(append(k.id(), signature...)) + "\n"
}

// proofCases collects cases.
type proofCases struct {
	all []proofCase

	log, other, w1, w2 proofKey // other is another key of the log
	private, extra     string
	l                  proofLog // of the event proofEvent, as the 4th of 7
	signed, cosigned   string   // its checkpoint
	good               string   // its proof
	path               []string
	keys, witnessed    proofKeys
}

func (c *proofCases) add(name, event, proof string, keys proofKeys, want proofWant) {
	c.all = append(c.all, proofCase{Name: name, Event: json.RawMessage(event), Proof: proof, Keys: keys, Want: want})
}

// reject adds a case of proofEvent that is not proved.
func (c *proofCases) reject(reason, name, proof string, keys proofKeys) {
	c.add(name, proofEvent, proof, keys, proofWant{Reason: reason})
}

func proved(l proofLog, witnesses ...proofSeen) proofWant {
	return proofWant{Origin: proofOrigin, Size: l.size, Index: l.index, RecordedAt: proofTime, Witnesses: witnesses}
}

// emitProofs returns the cases of proofs as JSON. Texts, trees, keys and canonical JSON come from packages that the SDKs do not use.
func emitProofs() (string, error) {
	c := proofCases{
		log: newProofKey(proofOrigin, 1, "l"), other: newProofKey(proofOrigin, 1, "o"),
		w1: newProofKey("witness.example/w1", 4, "1"), w2: newProofKey("witness.example/w2", 4, "2"), private: strings.Repeat("ab", 32),
	}
	for _, k := range []proofKey{c.log, c.other} { // another implementation reads them
		if _, err := note.NewVerifier(k.public()); err != nil {
			return "", err
		}
	}
	c.extra = `{"private":"` + c.private + `","recordedAt":"` + proofTime + `"}`
	c.keys = proofKeys{Log: []string{c.log.public()}}
	c.witnessed = proofKeys{Log: []string{c.other.public(), c.log.public()}, Witnesses: []string{c.w1.public(), c.w2.public()}}
	c.l = newProofLog(7, 3, proofEvent, c.private, proofTime)
	c.path = c.l.path
	c.signed = c.l.text() + "\n" + c.log.line(c.l.text())
	c.cosigned = c.signed + c.w1.line(c.l.text()) + c.w2.line(c.l.text())
	c.good = c.l.proof(c.extra, c.cosigned)
	c.valid()
	c.addedMembers()
	c.otherEvents()
	c.otherPaths()
	c.otherSignatures()
	c.otherCosignatures()
	c.malformedKeys()
	c.malformedEvents()
	c.malformedProofs()
	return encodeCases(c.all)
}

// valid adds proofs of logs of many sizes, with and without witnesses.
func (c *proofCases) valid() {
	logs := []proofLog{newDeepLog(20, proofEvent, c.private, proofTime)}
	for _, at := range [][2]int64{{1, 0}, {2, 0}, {2, 1}, {3, 2}, {7, 3}, {7, 6}, {8, 7}, {1000, 999}, {1000, 512}} {
		logs = append(logs, newProofLog(at[0], at[1], proofEvent, c.private, proofTime))
	}
	for _, l := range logs {
		name := fmt.Sprintf("event %d of %d", l.index, l.size)
		c.add(name, proofEvent, l.proof(c.extra, l.text()+"\n"+c.log.line(l.text())), c.keys, proved(l))
	}
	seen := []proofSeen{{c.w1.name, "2026-11-20T09:31:00Z"}, {c.w2.name, "2026-11-20T09:31:00Z"}}
	c.add("two witnesses, and a key of the log that did not sign", proofEvent, c.good, c.witnessed, proved(c.l, seen...))
	c.add("witnesses of whom the reader knows none", proofEvent, c.good, c.keys, proved(c.l))
	one := proofKeys{Log: c.keys.Log, Witnesses: c.witnessed.Witnesses, Quorum: 1}
	unknown := "— witness.example/mldsa " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 2432)) + "\n"
	c.add("signatures of unknown kinds are ignored", proofEvent, c.l.proof(c.extra, c.signed+unknown+c.w2.line(c.l.text())), one, proved(c.l, seen[1]))
	twice := c.w1.line(c.l.text()) + c.w1.lineAt(c.l.text(), seenAt+60)
	c.add("a witness that signed twice counts once", proofEvent, c.l.proof(c.extra, c.signed+twice), one, proved(c.l, seen[0]))
	c.add("two keys of the log signed", proofEvent, c.l.proof(c.extra, c.signed+c.other.line(c.l.text())), c.witnessed.without(), proved(c.l))
	c.add("other white space in the event", strings.Replace(proofEvent, `"remote":true`, `"remote": true`, 1), c.good, c.keys, proved(c.l))
	numbers := `{"numbers":[0,-0.0,1,-1,1.0,100,20.50,0.1,333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001,1e21,123456789012345680000,` +
		`0.000001,1e-7,5e-324,1.7976931348623157e308,9007199254740992,-1.5e-9,1.2345e+25],"constants":[true,false,null],"nested":[[],{},[{}]]}`
	l := newProofLog(3, 1, numbers, c.private, proofTime)
	c.add("numbers", numbers, l.proof(c.extra, l.text()+"\n"+c.log.line(l.text())), c.keys, proved(l))
	texts := `{"\u0000\u001f\u007f\/\b\f":"\uD83D\uDE00 \u00e9\u0301\uFFFD","peach":"p\u00eache","":"","A":1,"a":2,"__proto__":{"x":1},"10":0,"9":0}`
	l = newProofLog(3, 1, texts, c.private, proofTime)
	c.add("escaped texts and odd names", texts, l.proof(c.extra, l.text()+"\n"+c.log.line(l.text())), c.keys, proved(l))
}

func (k proofKeys) without() proofKeys { return proofKeys{Log: k.Log} }

// addedMembers adds proofs of events that have members which the API gained later.
func (c *proofCases) addedMembers() {
	later := strings.Replace(proofEvent, `"remote":true`, `"remote":true,"shifts":[{"night":null,"day":"unknown"}],"tips":[]`, 1)
	early := newProofLog(7, 3, strings.Replace(proofEvent, `"remote":true`, `"remote":true,"shifts":[{}]`, 1), c.private, proofTime)
	proof := func(paths string) string {
		return early.proof(strings.Replace(c.extra, "}", `,"added":[`+paths+`],"more":1}`, 1), early.text()+"\n"+c.log.line(early.text()))
	}
	all := `"facts.shifts.0.day","facts.shifts.0.night","facts.tips","facts.missing","facts.shifts.9.day"`
	c.add("members that the API gained later", later, proof(all), c.keys, proved(early))
	for name, change := range map[string][2]string{
		"a list": {`"tips":[]`, `"tips":["yes"]`}, "false": {`"night":null`, `"night":false`}, "zero": {`"night":null`, `"night":0`},
		"an object": {`"night":null`, `"night":{}`}, "a text": {`"day":"unknown"`, `"day":"no"`},
	} {
		c.add("the proof hides "+name, strings.Replace(later, change[0], change[1], 1), proof(all), c.keys, proofWant{Reason: "hidden_value"})
	}
	c.add("the proof hides the note", later, proof(all+`,"note"`), c.keys, proofWant{Reason: "hidden_value"})
	c.add("the proof leaves out an element of a list", strings.Replace(later, `[{"night"`, `[null,{"night"`, 1), proof(all+`,"facts.shifts.0"`), c.keys,
		proofWant{Reason: "different_event"})
	c.add("a member that the event lacks and the proof does not name", later, proof(`"facts.tips"`), c.keys, proofWant{Reason: "different_event"})
}

// otherEvents adds proofs of events that differ from the recorded one.
func (c *proofCases) otherEvents() {
	for name, change := range map[string][2]string{
		"note": {"<visite>", "<visita>"}, "fact": {`"remote":true`, `"remote":false`}, "record": {"odin-works", "odin-work"},
		"number": {"0.000001", "0.000002"}, "removed member": {`"outcome":"verified",`, ""},
		"time of the check": {"09:00:00.12Z", "09:00:00.120Z"}, "source": {"c=2", "c=3"}, "added member": {`"slug"`, `"z":1,"slug"`},
		"null for a fact": {`"remote":true`, `"remote":null`}, "composed character": {"Première", "Premie\u0300re"},
	} {
		c.add("changed event: "+name, strings.Replace(proofEvent, change[0], change[1], 1), c.good, c.witnessed, proofWant{Reason: "different_event"})
	}
	for name, change := range map[string][2]string{"time of recording": {"09:30", "09:29"}, "private part": {"abab", "abac"}} {
		c.reject("different_event", "changed opening: "+name, c.l.proof(strings.Replace(c.extra, change[0], change[1], 1), c.cosigned), c.witnessed)
	}
}

// otherPaths adds proofs whose hashes or index do not lead to the root.
func (c *proofCases) otherPaths() {
	p := c.path
	flipped := []byte(p[1])
	flipped[3] ^= 1
	for name, change := range map[string]func(l *proofLog){
		"other index":     func(l *proofLog) { l.index = 2 },
		"index too large": func(l *proofLog) { l.index = 7 },
		"index of 2^52":   func(l *proofLog) { l.index = 1 << 52 },
		"hash dropped":    func(l *proofLog) { l.path = p[:2] },
		"hash added":      func(l *proofLog) { l.path = append(p[:3:3], p[0]) },
		"hash in front":   func(l *proofLog) { l.path = append([]string{p[0]}, p...) },
		"hash repeated":   func(l *proofLog) { l.path = []string{p[0], p[0], p[2]} },
		"hash changed":    func(l *proofLog) { l.path = []string{p[0], string(flipped), p[2]} },
		"hashes swapped":  func(l *proofLog) { l.path = []string{p[1], p[0], p[2]} },
		"no hashes":       func(l *proofLog) { l.path = nil },
	} {
		changed := c.l
		change(&changed)
		c.reject("different_event", "forged path: "+name, changed.proof(c.extra, c.cosigned), c.witnessed)
	}
	empty := proofLog{size: 0}
	c.reject("different_event", "empty log", empty.proof(c.extra, empty.text()+"\n"+c.log.line(empty.text())), c.keys)
}

// otherSignatures adds proofs that no given key of the log has signed.
func (c *proofCases) otherSignatures() {
	text := c.l.text()
	renamed := strings.Replace(text, proofOrigin, "evil.example/log", 1)
	stranger := newProofKey("other.example/log", 1, "l")
	c.reject("unknown_log", "signature of another key", c.l.proof(c.extra, text+"\n"+c.other.line(text)), c.keys)
	c.reject("unknown_log", "key of another log", c.good, proofKeys{Log: []string{stranger.public()}})
	c.reject("unknown_log", "known key under another origin", c.l.proof(c.extra, renamed+"\n"+c.log.line(renamed)), c.keys)
	c.reject("unknown_log", "known key that signs in the name of another", c.l.proof(c.extra, text+"\n"+stranger.line(text)),
		proofKeys{Log: []string{stranger.public()}})
	c.reject("unknown_log", "no keys", c.good, proofKeys{Log: []string{}})
	larger := strings.Replace(text, "\n7\n", "\n8\n", 1)
	c.reject("invalid_signature", "changed size", c.l.proof(c.extra, larger+"\n"+c.log.line(text)), c.keys)
	flipped := c.log.line(text)
	flipped = strings.Replace(flipped, flipped[len(flipped)-12:len(flipped)-8], "AAAA", 1)
	c.reject("invalid_signature", "changed signature", c.l.proof(c.extra, text+"\n"+flipped), c.keys)
	c.reject("invalid_signature", "a valid and a changed signature of one key", c.l.proof(c.extra, c.signed+flipped), c.keys)
	c.reject("invalid_signature", "signature that is too short", c.l.proof(c.extra, text+"\n"+c.log.lineOf(make([]byte, 63))), c.keys)
}

// otherCosignatures adds proofs that the given witnesses have not cosigned.
func (c *proofCases) otherCosignatures() {
	text := c.l.text()
	w1 := proofKeys{Log: c.keys.Log, Witnesses: []string{c.w1.public()}}
	larger := strings.Replace(text, "\n7\n", "\n8\n", 1)
	later := []byte(c.w1.line(text))
	later[len("— witness.example/w1 ")+14]++ // within the seconds
	c.reject("invalid_signature", "cosignature of another text", c.l.proof(c.extra, c.signed+c.w1.line(larger)), w1)
	c.reject("invalid_signature", "cosignature with another time", c.l.proof(c.extra, c.signed+string(later)), w1)
	c.reject("invalid_signature", "cosignature without a time", c.l.proof(c.extra, c.signed+c.w1.lineOf(ed25519.Sign(c.w1.key, []byte(text)))), w1)
	for _, seconds := range []uint64{253402300800, 1 << 53, 1<<64 - 1} { // from the year 10000
		c.reject("invalid_signature", fmt.Sprintf("cosignature at second %d", seconds), c.l.proof(c.extra, c.signed+c.w1.lineAt(text, seconds)), w1)
	}
	c.reject("invalid_signature", "a valid and a changed cosignature of one witness", c.l.proof(c.extra, c.cosigned+string(later)), w1)
	c.reject("not_witnessed", "one witness of two", c.l.proof(c.extra, c.signed+c.w1.line(text)), c.witnessed)
	c.reject("not_witnessed", "one witness of two, twice", c.l.proof(c.extra, c.signed+c.w1.line(text)+c.w1.lineAt(text, seenAt+60)), c.witnessed)
	renamed := newProofKey(c.w1.name, 4, "x")
	c.reject("not_witnessed", "cosignature by another key with the name of the witness", c.l.proof(c.extra, c.signed+renamed.line(text)), w1)
}

// malformedKeys adds keys that are none.
func (c *proofCases) malformedKeys() {
	public := c.log.public()
	for name, key := range map[string]string{
		"empty": "", "no base64": "a+00000000+!", "wrong id": strings.Replace(public, "+", "+0", 1), "witness key": c.w1.public(),
		"short": "a+00000000+AQ==", "no name": strings.TrimPrefix(public, proofOrigin), "line feed": public + "\n",
	} {
		c.reject("malformed_key", "malformed key: "+name, c.good, proofKeys{Log: []string{key}})
	}
	again := newProofKey("witness.example/again", 4, "1")
	for name, keys := range map[string]proofKeys{
		"log key as witness": {Witnesses: []string{public}}, "witness twice": {Witnesses: []string{c.w1.public(), c.w1.public()}},
		"witness under two names": {Witnesses: []string{c.w1.public(), again.public()}}, "quorum below 0": {Witnesses: c.witnessed.Witnesses, Quorum: -1},
		"quorum above the witnesses": {Witnesses: c.witnessed.Witnesses, Quorum: 3},
	} {
		keys.Log = c.keys.Log
		c.reject("malformed_key", "malformed key: "+name, c.good, keys)
	}
}

// malformedEvents adds events that have no canonical form.
func (c *proofCases) malformedEvents() {
	for name, event := range map[string]string{
		"a text": `"event"`, "null": "null", "a list": "[]", "number beyond float64": `{"a":1e400}`, "half of a surrogate pair": `{"a":"\ud800"}`,
		"half of a surrogate pair in a name": `{"\udc00\ud800":1}`, "second half before a character": `{"a":"\udc00\u0041"}`,
		"too deep": strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65),
	} {
		c.add("malformed event: "+name, event, c.good, c.witnessed, proofWant{Reason: "malformed_event"})
	}
}

// malformedProofs adds texts that are no proof.
func (c *proofCases) malformedProofs() {
	good, path, l, text := c.good, c.path, c.l, c.l.text()
	extended := text + "extension\n"
	for name, proof := range map[string]string{
		"empty": "", "other version": strings.Replace(good, "@v1", "@v2", 1), "no extra": strings.Replace(good, "extra ", "", 1),
		"extra is not base64":       strings.Replace(good, "extra e", "extra !", 1),
		"extra line twice":          strings.Replace(good, "index", strings.Split(good, "\n")[1]+"\nindex", 1),
		"index with a leading zero": strings.Replace(good, "index 3", "index 03", 1), "index with a sign": strings.Replace(good, "index 3", "index +3", 1),
		"no index": strings.Replace(good, "index 3\n", "", 1), "index beyond 2^53": strings.Replace(good, "index 3", "index 9007199254740993", 1),
		"index in other digits": strings.Replace(good, "index 3", "index ٣", 1), "short hash": strings.Replace(good, path[0], path[0][:40], 1),
		"hash with spaces": strings.Replace(good, path[0], path[0]+" ", 1), "hash with a carriage return": strings.Replace(good, path[0], path[0]+"\r", 1),
		"loose base64":           strings.Replace(good, path[0], path[0][:42]+"_=", 1),
		"base64 with loose bits": strings.Replace(good, path[0], path[0][:42]+string(path[0][42]+1)+"=", 1),
		"no checkpoint":          strings.Split(good, "\n\n")[0] + "\n",
		"64 hashes":              strings.Replace(good, path[0], strings.Repeat(path[0]+"\n", 61)+path[0], 1),
		"extension line":         l.proof(c.extra, extended+"\n"+c.log.line(extended)), "no signatures": l.proof(c.extra, text+"\n"),
		"no line feed at the end": strings.TrimSuffix(good, "\n"), "trailing text": good + "x\n", "empty line at the end": good + "\n",
		"carriage returns": strings.ReplaceAll(good, "\n", "\r\n"), "hyphen as dash": strings.ReplaceAll(good, "— ", "- "),
		"tab in a signature": strings.Replace(good, "w1 ", "w1\t", 1), "signature without a name": strings.Replace(good, "— witness.example/w1 ", "—  ", 1),
		"no root": strings.Replace(good, l.root.String(), "", 1), "size is hexadecimal": strings.Replace(good, "\n7\n", "\n0x7\n", 1),
		"no origin": strings.Replace(good, "\n"+proofOrigin+"\n", "\n\n", 1), "byte order mark": "\ufeff" + good, "line feed in front": "\n" + good,
	} {
		c.reject("malformed_proof", "malformed proof: "+name, proof, c.witnessed)
	}
	for name, extra := range map[string]string{
		"extra is not JSON": "{", "extra is an array": "[]", "extra is null": "null", "private part in capitals": strings.Replace(c.extra, "ab", "AB", 1),
		"private part is short": strings.Replace(c.extra, "ab", "", 1), "no private part": strings.Replace(c.extra, "private", "Private", 1),
		"no time of recording": strings.Replace(c.extra, "recordedAt", "recorded", 1), "time of recording is none": strings.Replace(c.extra, "T09:30", " 09:30", 1),
		"time of recording in another zone": strings.Replace(c.extra, "Z", "+00:00", 1), "no such day": strings.Replace(c.extra, "11-20", "02-30", 1),
		"added is a text": strings.Replace(c.extra, "}", `,"added":"note"}`, 1), "added has a number": strings.Replace(c.extra, "}", `,"added":[1]}`, 1),
		"added is null": strings.Replace(c.extra, "}", `,"added":null}`, 1),
	} {
		c.reject("malformed_proof", "malformed proof: "+name, l.proof(extra, c.cosigned), c.witnessed)
	}
	c.reject("malformed_proof", "malformed proof: too large", good, c.witnessed)
	c.all[len(c.all)-1].Repeat = 1500
}

// encodeCases returns the cases ordered by name, each on its line.
func encodeCases(cases []proofCase) (string, error) {
	slices.SortFunc(cases, func(a, b proofCase) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for i, c := range cases {
		out.WriteString(map[bool]string{true: "[\n", false: ","}[i == 0])
		if err := enc.Encode(c); err != nil {
			return "", err
		}
	}
	return out.String() + "]\n", nil
}
