package transcript

import (
	"encoding/json"
	"io"
)

// documents finds the messages of consecutive JSON documents: arrays of
// messages, and objects that have such an array under the name messages.
type documents struct {
	in     *input
	count  int  // number of documents begun
	object bool // whether the array is in an object
	inside bool // whether inside an array of messages
	ended  bool
}

const truncated = "the file ends in the middle of a list of messages"

// next returns the next message. After something that is not JSON the rest of
// the file is lost: without line ends there is no place to resume.
func (d *documents) next() (record, error) {
	for !d.ended {
		if !d.inside {
			why, err := d.enter()
			if err != nil {
				return record{}, err
			}
			if why != "" {
				return d.give(why)
			}
			continue
		}
		c, err := d.in.peek()
		if err == io.EOF {
			return d.give(truncated)
		}
		if err != nil {
			return record{}, err
		}
		switch c {
		case ',':
			d.in.readByte()
		case ']':
			d.in.readByte()
			d.inside = false
			if why, err := d.leave(); err != nil {
				return record{}, err
			} else if why != "" {
				return d.give(why)
			}
		case '}', ':':
			return d.give("a list of messages that is no JSON")
		default:
			rec, err := d.in.value()
			if err != nil {
				return record{}, err
			}
			rec.document = d.count - 1
			return rec, nil
		}
	}
	return record{}, io.EOF
}

// give reports that the rest of the file cannot be read.
func (d *documents) give(why string) (record, error) {
	d.ended = true
	return record{line: d.in.line, why: why}, nil
}

// enter moves to the first message of the next document.
func (d *documents) enter() (why string, err error) {
	c, err := d.in.peek()
	if err != nil {
		return "", err // io.EOF: no more documents
	}
	d.count++
	switch c {
	case '[':
		d.in.readByte()
		d.inside, d.object = true, false
		return "", nil
	case '{':
		d.in.readByte()
		d.object = true
		return d.members()
	}
	return "neither a list of messages nor an object that holds one", nil
}

// leave moves to the end of a document whose messages were read.
func (d *documents) leave() (why string, err error) {
	if !d.object {
		return "", nil
	}
	return d.members()
}

// members moves through the members of an object, to its messages or its end.
func (d *documents) members() (why string, err error) {
	for {
		c, err := d.in.peek()
		if err == io.EOF {
			return truncated, nil
		}
		if err != nil {
			return "", err
		}
		switch c {
		case ',':
			d.in.readByte()
			continue
		case '}':
			d.in.readByte()
			d.object = false
			return "", nil
		}
		rec, err := d.in.value()
		if err != nil {
			return "", err
		}
		var name string
		if json.Unmarshal(rec.raw, &name) != nil {
			return "an object that is no JSON", nil
		}
		if c, err = d.in.peek(); err == nil && c == ':' {
			d.in.readByte()
			c, err = d.in.peek()
		}
		if err == io.EOF {
			return truncated, nil
		}
		if err != nil {
			return "", err
		}
		if name == "messages" && c == '[' {
			d.in.readByte()
			d.inside = true
			return "", nil
		}
		if _, err := d.in.value(); err != nil {
			return "", err
		}
	}
}
