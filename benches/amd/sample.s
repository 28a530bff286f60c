c.spv subgroup=64 VGPRs=12 Spilled_SGPRs=0 Spilled_VGPRs=0 Code_size=160 Subgroups_per_SIMD=40 VALU=18
---- ACO IR
BB7:
	v_mac_f32_e32 v9, v9, v9
---- Assembly
BB0:
	s_load_dwordx4 s[8:11], s[2:3], null                        ; f4080201 fa000000
	v_and_b32_e32 v1, 31, v0                                    ; 3602009f
	v_mul_lo_u32 v2, v1, s4                                     ; d5690002 00000901
	s_mov_b32 s1, 0                                             ; be810380
BB1:
	v_lshl_add_u32 v4, v1, 2, s1                                ; d7460004 00050501
	v_cmp_gt_u32_e32 vcc, 64, v4                                ; 7d8808c0
	s_cbranch_execz BB3                                         ; bf880005
BB2:
	buffer_load_dwordx4 v[4:7], v4, s[8:11], 0 offen            ; e0381000 80020404
BB3:
	s_waitcnt vmcnt(0)                                          ; bf8c3f70
	ds_write_b128 v3, v[4:7]                                    ; db7c0000 00000403
	s_mov_b32 s5, 0                                             ; be850380
BB4:
	v_lshlrev_b32_e32 v8, 4, v3                                 ; 34100684
	ds_read_b128 v[4:7], v8                                     ; dbfc0000 04000008
	ds_read2_b32 v[8:9], v8 offset1:4                           ; d8dc0400 08000008
	v_mac_f32_e32 v10, v4, v8                                   ; 3e141104
	v_fmac_f32_e32 v11, v5, v9                                  ; 56161305
	v_dual_fmac_f32 v10, v6, v8 :: v_dual_fmac_f32 v11, v7, v9  ; c8001106 0a0a1307
	v_dual_mul_f32 v12, v6, v8 :: v_dual_fmac_f32 v11, v7, v9   ; c8c01106 0c0a1307
	v_mad_u32_u24 v8, 0x84, v3, v8                              ; d5430008 042206ff 00000084
	s_add_u32 s5, s5, 4                                         ; 80058405
	s_cmp_ge_u32 s5, 15                                         ; bf099005
	s_cbranch_scc0 BB4                                          ; bf84fff5
BB5:
	s_barrier                                                   ; bf8a0000
	s_add_u32 s1, s1, 16                                        ; 80019001
	s_cmpk_ge_u32 s1, 0x50                                      ; b6810050
	s_cbranch_scc0 BB1                                          ; bf84ffe8
BB6:
	v_exp_f32_e32 v10, v10                                      ; 7e144b0a
	v_add_f32_e32 v10, v10, v11                                 ; 06141710
	v_fma_f32 v10, v10, v11, 1.0                                ; d54b000a 03ca170a
	v_pk_fma_f16 v10, v10, v11, v12                             ; cc0e400a 1c32170a
	v_mul_f32_e32 v10, 2.0, v10                                 ; 101414f4
	v_cndmask_b32_e32 v10, 0, v10, vcc                          ; 02141480
	v_lshrrev_b64 v[0:1], 0, v[2:3]                             ; d7000000 00020480
	v_mov_b32_e32 v12, v34                                      ; 7e180322
	buffer_store_dword v10, v0, s[8:11], 0 offen                ; e0701000 80020a00
	s_endpgm                                                    ; bf810000
