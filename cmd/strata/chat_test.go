package main

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/stratamem/strata/adapters/adaptertest"
	"github.com/stratamem/strata/projection"
)

// TestChat: what an endpoint is sent holds what the view does.
func TestChat(t *testing.T) {
	adaptertest.Run(t, chatAdapter)
}

func FuzzChat(f *testing.F) { adaptertest.Fuzz(f, chatAdapter) }

var chatAdapter = adaptertest.Adapter[[]openai.ChatCompletionMessageParamUnion]{
	Request: func(view *projection.View) ([]openai.ChatCompletionMessageParamUnion, error) {
		return chatMessages(view, false), nil
	},
	Items:   itemsOfChat,
	Without: []string{adaptertest.Reasoning, adaptertest.Failures},
}

// itemsOfChat reads messages as an endpoint does.
func itemsOfChat(messages []openai.ChatCompletionMessageParamUnion) ([]projection.Item, error) {
	var items []projection.Item
	for _, m := range messages {
		data, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		var sent struct {
			Role, Name string
			Content    json.RawMessage
			CallID     string `json:"tool_call_id"`
			Calls      []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		if err := json.Unmarshal(data, &sent); err != nil {
			return nil, err
		}
		parts, err := partsOfChat(sent.Content)
		if err != nil {
			return nil, err
		}
		switch {
		case sent.Role == "tool":
			items = append(items, projection.Item{Kind: projection.ToolResult, CallID: sent.CallID, Parts: parts})
		case len(parts) > 0 || len(sent.Calls) == 0:
			items = append(items, projection.Item{Kind: projection.Message, Role: projection.Role(sent.Role), Name: sent.Name, Parts: parts})
		}
		for _, c := range sent.Calls {
			items = append(items, projection.Call(c.ID, c.Function.Name, c.Function.Arguments))
		}
	}
	return items, nil
}

func partsOfChat(content json.RawMessage) ([]projection.Part, error) {
	var text string
	if len(content) == 0 {
		return nil, nil
	}
	if json.Unmarshal(content, &text) == nil {
		return []projection.Part{{Type: projection.TextPart, Text: text}}, nil
	}
	var sent []struct {
		Type, Text string
		Image      struct{ URL string } `json:"image_url"`
		File       struct {
			Name string `json:"filename"`
			Data string `json:"file_data"`
		}
	}
	if err := json.Unmarshal(content, &sent); err != nil {
		return nil, err
	}
	var parts []projection.Part
	for _, s := range sent {
		p := projection.Part{Type: projection.TextPart, Text: s.Text}
		url := s.Image.URL
		switch s.Type {
		case "image_url":
			p.Type = projection.ImagePart
		case "file":
			p.Type, p.Name, url = projection.FilePart, s.File.Name, s.File.Data
		}
		kind, data, inline := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
		if inline {
			bytes, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				return nil, err
			}
			p.MediaType, p.Data = kind, bytes
		} else {
			p.URL = url
		}
		parts = append(parts, p)
	}
	return parts, nil
}
