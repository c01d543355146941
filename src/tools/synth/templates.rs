//! Short chat templates in the turn formats of the families.

use super::Family;

/// The template of a vocabulary family; `None`: its models do not chat.
pub fn of(family: Family) -> Option<&'static str> {
    match family {
        Family::Gemma => Some(GEMMA),
        Family::Llama2 => Some(LLAMA2),
        Family::Llama3 => Some(LLAMA3),
        Family::Qwen => Some(CHATML),
        Family::Bert | Family::ModernBert => None,
    }
}

/// The system text opens the first turn of the user.
const GEMMA: &str = "{{ bos_token }}\
{%- set ns = namespace(system='') -%}\
{%- for message in messages -%}\
{%- if message.role == 'system' -%}\
{%- set ns.system = message.content + '\\n\\n' -%}\
{%- else -%}\
{{ '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}\
{{ (ns.system + message.content) | trim + '<end_of_turn>\\n' }}\
{%- set ns.system = '' -%}\
{%- endif -%}\
{%- endfor -%}\
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}";

const LLAMA2: &str = "\
{%- set ns = namespace(system='') -%}\
{%- for message in messages -%}\
{%- if message.role == 'system' -%}\
{%- set ns.system = '<<SYS>>\\n' + message.content + '\\n<</SYS>>\\n\\n' -%}\
{%- elif message.role == 'user' -%}\
{{ bos_token + '[INST] ' + ns.system + message.content + ' [/INST]' }}\
{%- set ns.system = '' -%}\
{%- else -%}\
{{ ' ' + message.content + ' ' + eos_token }}\
{%- endif -%}\
{%- endfor -%}";

const LLAMA3: &str = "{{ bos_token }}\
{%- for message in messages -%}\
{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}\
{%- endfor -%}\
{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif -%}";

const CHATML: &str = "\
{%- for message in messages -%}\
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\
{%- endfor -%}\
{%- if add_generation_prompt -%}\
{{ '<|im_start|>assistant\\n' }}\
{%- if enable_thinking is defined and enable_thinking is false -%}{{ '<think>\\n\\n</think>\\n\\n' }}{%- endif -%}\
{%- endif -%}";
