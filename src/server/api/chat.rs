//! `/v1/chat/completions`: OpenAI's endpoint for conversations.
